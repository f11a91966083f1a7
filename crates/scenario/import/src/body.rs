//! A fabric, and what is worth knowing of it.

/// What is written down.
pub(crate) struct Body {
    /// Lines of comment.
    pub(crate) about: Vec<String>,
    /// Keys.
    pub(crate) text: String,
}
