//! Language models as they are published, and what a step of them comes to on accelerators that share one: who has which part, what is computed,
//! what is sent, what has to be kept in memory, and how long all of that takes.
//!
//! A [`Decoder`] is a model's shape, read from its `config.json`; a [`Split`] says who has which part. [`exchanges`] are the collectives of a step with
//! their bytes, [`Memory`] what an accelerator keeps. [`Timing`] says how long layers take: by measured rows of a [`LayerProfile`] where there are some,
//! and by an [`Accelerator`]'s roofline elsewhere. [`infer`] and [`train`] lay computation and communication side by side, and [`serve`] lays
//! iterations of [`Requests`] that come and go behind each other. A [`Deployment`] is all of
//! it as a file.
//!
//! How long a collective takes, whoever calls says: nothing here knows a fabric, a design or a simulator.

mod accelerator;
mod asked;
mod decoder;
mod deployment;
mod exchange;
mod inference;
mod kernels;
mod memory;
mod parameters;
mod phase;
mod profile;
mod requests;
mod serving;
mod split;
mod timing;
mod training;

pub use accelerator::{Accelerator, AcceleratorError, Efficiency};
pub use asked::{InferenceSetup, TrainingSetup};
pub use decoder::{Attention, Biases, Decoder, DecoderError, Experts};
pub use deployment::{Deployment, NetworkSetup};
pub use exchange::{Exchange, Group, exchanges, training_exchanges};
pub use inference::{Inference, PhaseTime, infer};
pub use kernels::{Kernel, KernelKind, kernels};
pub use memory::Memory;
pub use phase::{Phase, Products};
pub use profile::{Launches, LayerProfile, LayerProfileError};
pub use requests::{Request, Requests, RequestsError};
pub use serving::{IterationTime, Served, ServingSetup, serve};
pub use split::Split;
pub use timing::{Error, Source, Timing, stretched};
pub use training::{TrainingTime, train};
