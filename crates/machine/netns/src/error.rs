//! Why there is no fabric of namespaces.

/// Why there is no fabric.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// Not on this machine, not as this user.
    #[error(
        "expected root and iproute2 for network namespaces, found {found}; run as root with `ip` and `tc` installed"
    )]
    Unavailable {
        /// What is missing.
        found: String,
    },
    /// A command failed.
    #[error(
        "expected `{command}` to succeed, found \"{found}\"; look whether the kernel has veth, bridge and tbf"
    )]
    Command {
        /// What was run.
        command: String,
        /// The first thing it complained about.
        found: String,
    },
    /// No folder for what the fabric's processes share.
    #[error("expected to make a folder in {parent}, found \"{found}\"; make room there, or set TMPDIR")]
    Folder {
        /// Where.
        parent: String,
        /// What the system said.
        found: String,
    },
    /// A layout that is neither tree nor mesh.
    #[error("expected {expected}, found {found}; change the layout")]
    Layout {
        /// What would be right.
        expected: &'static str,
        /// What was given.
        found: String,
    },
}
