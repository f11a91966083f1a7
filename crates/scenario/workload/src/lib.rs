//! What is trained: models as data, how long their layers take on an accelerator, and an iteration of data-parallel training, in which
//! gradients are added up over all ranks while the backward pass goes on.
//!
//! A [`Model`] has a line for each layer, from the publication that is named there. [`passes`] says how long each layer takes, from what a
//! [`Training`](quincunx_scenario::Training) says of the accelerator, and [`iterate`] lays computation and communication side by side. How
//! long an AllReduce takes, whoever calls it says: nothing here knows a fabric, a design or a simulator.
//!
//! A [`Transformer`] is a language model split over the GPUs of a tensor-parallel group: the shapes of its products, not how long they take.
//! A [`Profile`] is how long a GPU has been measured to take for them.

mod iteration;
mod layer;
mod model;
mod profile;
mod roofline;
mod transformer;

pub use iteration::{Bucket, Fusion, Iteration, iterate, step, tick};
pub use layer::{Conv, Dense, Layer, Pool, Then};
pub use model::{Model, ModelError};
pub use profile::{Fit, KernelKind, MeasuredKernel, Profile, ProfileError};
pub use roofline::{Pass, passes};
pub use transformer::{Direction, Gemm, SubLayer, SubLayerShape, Transformer, TransformerError, Work};
