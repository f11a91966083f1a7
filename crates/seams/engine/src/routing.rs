//! What a program offers that dispatches tokens (MultiWrite 2.3.2): to be told whom they are for.

use crate::verbs::RequestError;
use quincunx_collective::Routes;

/// A program that dispatches tokens.
pub trait Routed {
    /// Says whom the tokens of this rank's next batch are for: the Dispatch that is started next takes them there.
    ///
    /// # Errors
    /// If the routes make no sense. Nothing has changed then.
    fn route(&mut self, routes: &Routes) -> Result<(), RequestError>;
}
