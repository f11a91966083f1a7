//! What a model's step takes on a network by a design: computation by measured layers or a roofline, collectives by simulation. What that needs of
//! switches, and how sure it is.

mod advice;
mod doubt;
mod error;
mod needs;
mod network;
mod question;
mod trace;

pub use advice::{Saved, Worth};
pub use doubt::Doubt;
pub use error::PredictionError;
pub use needs::SwitchNeeds;
pub use network::AUTO;
pub use question::{Prediction, Question, Stretch};
