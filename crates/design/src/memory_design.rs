//! A design on the memory fabric, where accelerators around switches read and write each other's memory: what its crate implements, and
//! what everybody else sees of it.
//!
//! Several streams of collectives may run side by side, each by a design of its own. Every stream has a kernel on each accelerator,
//! synchronisation words and memory of its own; what computes in a switch is shared by the streams that name the same unit.

use crate::{AnySwitchUnit, Help, MemoryPlacement, MemoryStream, Params, Refusal, Settings};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt::Debug;
use quincunx_collective::{BlockQuantization, Collective, LengthOnly, Numbers, Payload, Provenance, Rank};
use quincunx_engine::shared_memory::{AnyKernel, InPlaceRequest};

/// What a design makes of the numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Vectors are of the request's data type; the result is the collective's.
    Exact,
    /// Vectors are of codes, and right behind a vector lie their scale factors; the result is
    /// [`BlockQuantization::sum`], the quantised sum of what they stand for.
    Codes(BlockQuantization),
    /// Vectors are of binary32 values, which are quantised each time that they are sent; the result is
    /// [`BlockQuantization::rq_all_reduce`].
    Requantized(BlockQuantization),
}

/// What a stream must have for itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MemoryNeeds {
    /// Synchronisation words of each accelerator.
    pub words: u16,
    /// Bytes of each accelerator's memory right behind the vector, which belong to it: scale factors.
    pub tail: usize,
    /// Bytes of each accelerator's memory to work in, behind all vectors.
    pub scratch: usize,
}

/// What a design on the memory fabric says of itself; everything else asks. One implementation in each engine crate, one line in the
/// catalog.
///
/// What it promises: [`needs`](Self::needs) is a pure function; parts are made of parameters, placement and streams alone; whatever a
/// peer sends, parts do not panic.
pub trait MemoryDesign: Debug + Send + Sync + 'static {
    /// Every option, typed, with units and defaults. The same keys in TOML, `--set` and JSON.
    type Params: Params;

    /// What people call it: `scin`.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// What it offers; the root of those that have one is any.
    fn collectives(&self) -> &'static [Collective];

    /// Whether it leaves the collective's own result, whatever its parameters are.
    fn is_exact(&self) -> bool {
        true
    }

    /// What it makes of the numbers. [`Form::Exact`] if and only if [`is_exact`](Self::is_exact).
    ///
    /// # Errors
    /// If the parameters make no sense.
    fn form(&self, _params: &Self::Params) -> Result<Form, Refusal> {
        Ok(Form::Exact)
    }

    /// Whether the switches run it, so that accelerators only wait. Accelerators that work have one fence and one adder each, so that
    /// no two streams may need them.
    fn runs_in_switches(&self) -> bool {
        false
    }

    /// The unit that switches must have for it; none if they forward only. Streams of one unit share one in each switch, with the same
    /// parameters, also those of several designs.
    fn unit_kind(&self) -> Option<&'static str> {
        None
    }

    /// The rules that can be broken, by name.
    fn mutations(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What a stream must have for itself.
    ///
    /// # Errors
    /// If the design cannot do that here.
    fn needs(
        &self,
        params: &Self::Params,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal>;

    /// What runs on an accelerator for a stream.
    ///
    /// # Errors
    /// If the parameters do not suit the placement.
    fn kernel<P: Payload>(
        &self,
        params: &Self::Params,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal>;

    /// What computes in a switch, for all streams that share it; of a design with a [`unit_kind`](Self::unit_kind).
    ///
    /// # Errors
    /// If the parameters do not suit the placement, or the switches forward only.
    fn unit<P: Payload>(
        &self,
        _params: &Self::Params,
        _placement: &MemoryPlacement,
        _switch: u16,
        _streams: &[MemoryStream],
    ) -> Result<Box<dyn AnySwitchUnit<P>>, Refusal> {
        Err(Refusal::new(
            "a design that computes in the switches",
            format!("{}, whose switches forward only", self.name()),
            "give them no unit",
        ))
    }
}

/// What nodes run of a design on the memory fabric, for one kind of payload.
pub trait MemoryParts<P: Payload> {
    /// [`MemoryDesign::kernel`].
    ///
    /// # Errors
    /// As there, and if the values make no sense.
    fn kernel_part(
        &self,
        settings: &Settings,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal>;

    /// [`MemoryDesign::unit`].
    ///
    /// # Errors
    /// As there, and if the values make no sense.
    fn unit_part(
        &self,
        settings: &Settings,
        placement: &MemoryPlacement,
        switch: u16,
        streams: &[MemoryStream],
    ) -> Result<Box<dyn AnySwitchUnit<P>>, Refusal>;
}

/// A design on the memory fabric as everybody sees it: what [`MemoryDesign`] says, without its types.
pub trait AnyMemoryDesign:
    Debug + Send + Sync + MemoryParts<Numbers> + MemoryParts<LengthOnly> + MemoryParts<Provenance>
{
    /// [`MemoryDesign::name`].
    fn name(&self) -> &'static str;
    /// [`MemoryDesign::summary`].
    fn summary(&self) -> &'static str;
    /// [`MemoryDesign::collectives`].
    fn collectives(&self) -> &'static [Collective];
    /// [`MemoryDesign::is_exact`].
    fn is_exact(&self) -> bool;
    /// [`MemoryDesign::form`].
    ///
    /// # Errors
    /// If the values make no sense.
    fn form(&self, settings: &Settings) -> Result<Form, Refusal>;
    /// [`MemoryDesign::runs_in_switches`].
    fn runs_in_switches(&self) -> bool;
    /// [`MemoryDesign::unit_kind`].
    fn unit_kind(&self) -> Option<&'static str>;
    /// [`MemoryDesign::mutations`].
    fn mutations(&self) -> Vec<&'static str>;
    /// Every key of its parameters, with what it means.
    fn help(&self) -> Vec<Help>;
    /// The defaults of its parameters.
    fn defaults(&self) -> Settings;
    /// Sets a key of its parameters; see [`Settings::set`].
    ///
    /// # Errors
    /// As there.
    fn set(&self, settings: &mut Settings, key: &str, value: &serde_json::Value) -> Result<(), Refusal>;
    /// [`MemoryDesign::needs`].
    ///
    /// # Errors
    /// As there, if the values make no sense, or if the design does not offer the collective.
    fn needs(
        &self,
        settings: &Settings,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal>;
}

impl<D: MemoryDesign, P: Payload> MemoryParts<P> for D {
    fn kernel_part(
        &self,
        settings: &Settings,
        placement: &MemoryPlacement,
        stream: &MemoryStream,
        rank: Rank,
    ) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        self.kernel(&settings.get()?, placement, stream, rank)
    }

    fn unit_part(
        &self,
        settings: &Settings,
        placement: &MemoryPlacement,
        switch: u16,
        streams: &[MemoryStream],
    ) -> Result<Box<dyn AnySwitchUnit<P>>, Refusal> {
        self.unit(&settings.get()?, placement, switch, streams)
    }
}

impl<D: MemoryDesign> AnyMemoryDesign for D {
    fn name(&self) -> &'static str {
        MemoryDesign::name(self)
    }

    fn summary(&self) -> &'static str {
        MemoryDesign::summary(self)
    }

    fn collectives(&self) -> &'static [Collective] {
        MemoryDesign::collectives(self)
    }

    fn is_exact(&self) -> bool {
        MemoryDesign::is_exact(self)
    }

    fn form(&self, settings: &Settings) -> Result<Form, Refusal> {
        MemoryDesign::form(self, &settings.get()?)
    }

    fn runs_in_switches(&self) -> bool {
        MemoryDesign::runs_in_switches(self)
    }

    fn unit_kind(&self) -> Option<&'static str> {
        MemoryDesign::unit_kind(self)
    }

    fn mutations(&self) -> Vec<&'static str> {
        MemoryDesign::mutations(self)
    }

    fn help(&self) -> Vec<Help> {
        D::Params::help()
    }

    fn defaults(&self) -> Settings {
        Settings::defaults::<D::Params>()
    }

    fn set(&self, settings: &mut Settings, key: &str, value: &serde_json::Value) -> Result<(), Refusal> {
        settings.set::<D::Params>(key, value)
    }

    fn needs(
        &self,
        settings: &Settings,
        placement: &MemoryPlacement,
        request: &InPlaceRequest,
    ) -> Result<MemoryNeeds, Refusal> {
        // Collectives with a root stand for those with any.
        let wanted = core::mem::discriminant(&request.collective);
        let offered = MemoryDesign::collectives(self);
        if !offered.iter().any(|offered| core::mem::discriminant(offered) == wanted) {
            let names: Vec<&str> = offered.iter().map(|offered| offered.name()).collect();
            return Err(Refusal::new(
                format!("a collective that {} offers ({})", self.name(), names.join(", ")),
                request.collective,
                "name another design or another collective",
            ));
        }
        MemoryDesign::needs(self, &settings.get()?, placement, request)
    }
}
