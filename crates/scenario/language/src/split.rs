//! How a model is split over accelerators, and what cannot be split so.

use crate::{Attention, Decoder};
use serde::Deserialize;

/// Who has which part of a model.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Split {
    /// Accelerators that share each layer: tensor parallelism.
    pub tp: u32,
    /// Stages of layers: pipeline parallelism.
    pub pp: u32,
    /// Replicas that train on samples of their own: data parallelism.
    pub dp: u32,
    /// Accelerators, of those of all replicas, that share the experts of a layer: expert parallelism.
    pub ep: u32,
    /// Whether what lies between products is shared, too: sequence parallelism. An AllReduce is a ReduceScatter and an AllGather then.
    pub sequence_parallel: bool,
    /// What replicas share: nothing, the optimizer's state, gradients too, weights too (Rajbhandari et al., ZeRO, 2020).
    pub zero: u8,
    /// Parts of a stage that take turns; 1: none (Narayanan et al., 2021).
    pub interleave: u32,
    /// Whether the backward pass does the forward pass again, and keeps a layer's input alone.
    pub recompute: bool,
}

impl Default for Split {
    fn default() -> Self {
        Self {
            tp: 1,
            pp: 1,
            dp: 1,
            ep: 1,
            sequence_parallel: false,
            zero: 0,
            interleave: 1,
            recompute: false,
        }
    }
}

impl Split {
    /// Accelerators.
    pub fn accelerators(&self) -> u64 {
        [self.tp, self.pp, self.dp].into_iter().map(u64::from).product()
    }

    /// Whether an expert is split over the accelerators of a layer: where no expert has accelerators of its own.
    pub(crate) const fn experts_are_split(&self) -> bool {
        self.ep == 1
    }

    /// Refuses what does not divide.
    ///
    /// # Errors
    /// What was expected and found, and what to do.
    pub fn check(&self, model: &Decoder) -> Result<(), String> {
        let counts = [self.tp, self.pp, self.dp, self.ep, self.interleave];
        if counts.contains(&0) || self.zero > 3 {
            return Err(format!(
                "expected `tp`, `pp`, `dp`, `ep` and `interleave` of one or more and `zero` of 0 to 3, found {counts:?} and {}; correct them",
                self.zero
            ));
        }
        let divides = |what: &str, of: u64, key: &str, by: u32| {
            if of.is_multiple_of(u64::from(by)) {
                return Ok(());
            }
            Err(format!(
                "expected a `{key}` that divides the {what} of {}, found {by} for {of}; choose another",
                model.name
            ))
        };
        divides("attention heads", model.attention.heads(), "tp", self.tp)?;
        if let Attention::Grouped { kept, .. } = model.attention {
            // Fewer heads of keys than accelerators: each has a copy of one.
            if !kept.is_multiple_of(u64::from(self.tp)) && !u64::from(self.tp).is_multiple_of(kept) {
                return Err(format!(
                    "expected a `tp` that divides the {kept} heads of keys of {} or is a multiple, found {}; choose another",
                    model.name, self.tp
                ));
            }
        }
        divides("values inside the FFN", model.ffn, "tp", self.tp)?;
        // Stages of 61 layers differ by one: the longest counts.
        if u64::from(self.pp) * u64::from(self.interleave) > model.layers {
            return Err(format!(
                "expected at most {} stages, a layer each of {}, found {} of {}; choose fewer",
                model.layers, model.name, self.interleave, self.pp
            ));
        }
        match model.experts {
            Some(experts) => divides("experts", experts.all, "ep", self.ep)?,
            None if self.ep > 1 => {
                return Err(format!(
                    "expected a model with experts for an `ep` of {}, found {}; set `ep` to 1",
                    self.ep, model.name
                ));
            }
            None => {}
        }
        let sharing = u64::from(self.tp) * u64::from(self.dp);
        if !sharing.is_multiple_of(u64::from(self.ep)) {
            return Err(format!(
                "expected an `ep` that divides the {sharing} accelerators of a stage, found {}; choose another",
                self.ep
            ));
        }
        Ok(())
    }

    /// Layers of the longest stage.
    pub fn layers(&self, model: &Decoder) -> u64 {
        model.layers.div_ceil(u64::from(self.pp))
    }
}
