//! A design that runs above queue pairs, or in switches that RoCE frames pass through: what its crate implements, and what everybody else
//! sees of it.

use crate::{
    AnyDatapath, AnyMemoryDesign, ClosedForm, FabricKind, GroupContext, Help, MemoryParts, Model, Params,
    Placement, Plan, Premises, Refusal, Role, Settings, Transport,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt::Debug;
use quincunx_collective::{Collective, LengthOnly, Numbers, Payload, Provenance};
use quincunx_engine::verbs::AnyProgram;
use quincunx_wire::Framing;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a switch runs for a group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SwitchPart<P: Payload> {
    /// Connections end at the switch; this runs above its queue pairs, as on a rank.
    Program(Box<dyn AnyProgram<P>>),
    /// Frames for the switch pass through this.
    Datapath(Box<dyn AnyDatapath<P>>),
    /// Frames from rank to rank pass through this on their way: those of the connections that the plan names as passing.
    Passage(Box<dyn AnyDatapath<P>>),
}

/// What a design says of itself; everything else asks. One implementation in each engine crate, one line in the catalog.
///
/// What it promises: [`plan`](Self::plan) is a pure function; parts are made of a node's context alone; whatever a peer sends, parts do
/// not panic.
pub trait Design: Debug + Send + Sync + 'static {
    /// Every option, typed, with units and defaults. The same keys in TOML, `--set`, JSON and the manager's messages.
    type Params: Params + AsRef<Transport>;
    /// What the plan says to a rank beside its connections; `()` if that is nothing.
    type RankRole: Serialize + DeserializeOwned;
    /// The same for a switch; `()` for a design among hosts.
    type SwitchRole: Serialize + DeserializeOwned;

    /// What people call it: `epic-3`.
    fn name(&self) -> &'static str;

    /// What it is, in a line.
    fn summary(&self) -> &'static str;

    /// Where it runs.
    fn fabrics(&self) -> &'static [FabricKind];

    /// What it offers; the root of those that have one is any.
    fn collectives(&self, fabric: FabricKind) -> &'static [Collective];

    /// Whether it offers writes of the application's own.
    fn offers_writes(&self) -> bool {
        false
    }

    /// The version of its parameters and roles, for nodes of several builds.
    fn version(&self) -> u32 {
        1
    }

    /// Designs whose parts in switches it can use beside its own: a switch that offers one of them can be in its trees.
    fn parts_of(&self) -> &'static [&'static str] {
        &[]
    }

    /// Keys that presets and drivers leave as they are, for they are its frames and buffers: only who names one sets it.
    fn keeps(&self) -> &'static [&'static str] {
        &[]
    }

    /// What its frames must be on real links. With RoCE v1 they pass through switches' processes on their way.
    fn framing(&self) -> Framing {
        Framing::RoceV2
    }

    /// Whether both ends of its connections are queue pairs of nodes, which then tell each other of their receive requests
    /// (InfiniBand Architecture 9.7.7.2), so that nobody sends what there is no room for. What passes through a switch to several does not.
    fn has_credits(&self, _params: &Self::Params) -> bool {
        false
    }

    /// Who is connected with whom, what each node is to do, and what switches must have for it.
    ///
    /// # Errors
    /// If the placement does not suit the design, or the parameters do not suit the placement.
    fn plan(
        &self,
        params: &Self::Params,
        placement: &Placement,
    ) -> Result<Plan<Self::RankRole, Self::SwitchRole>, Refusal>;

    /// What runs on a rank. `mutation` names a rule to break, for the checker alone.
    ///
    /// # Errors
    /// If the context makes no sense.
    fn rank<P: Payload>(
        &self,
        params: &Self::Params,
        role: Self::RankRole,
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<Box<dyn AnyProgram<P>>, Refusal>;

    /// What runs in a switch.
    ///
    /// # Errors
    /// If the context makes no sense, or the design has nothing to run there.
    fn switch<P: Payload>(
        &self,
        _params: &Self::Params,
        _role: Self::SwitchRole,
        _context: &GroupContext,
        _mutation: Option<&str>,
    ) -> Result<SwitchPart<P>, Refusal> {
        Err(Refusal::new(
            alloc::format!("a rank for {}, which runs among hosts", self.name()),
            "a switch",
            "run the same version at both ends",
        ))
    }

    /// Whether a collective is several others one after the other, one for each rank as their root: ReduceScatter as Reduces,
    /// AllGather as Broadcasts.
    fn runs_in_steps(&self, _params: &Self::Params, _collective: Collective) -> bool {
        false
    }

    /// What a closed form of the design's paper says; none if it has no such form.
    fn closed_form(
        &self,
        _form: ClosedForm,
        _params: &Self::Params,
        _premises: &Premises<'_>,
    ) -> Option<f64> {
        None
    }

    /// What the checker must know.
    fn model(&self) -> Model {
        Model::PLAIN
    }
}

/// What nodes run of a design, for one kind of payload.
pub trait Parts<P: Payload> {
    /// What runs on the rank of a context.
    ///
    /// # Errors
    /// If the context makes no sense, or is another version's.
    fn rank_part(
        &self,
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<Box<dyn AnyProgram<P>>, Refusal>;

    /// What runs in the switch of a context.
    ///
    /// # Errors
    /// As [`rank_part`](Self::rank_part).
    fn switch_part(&self, context: &GroupContext, mutation: Option<&str>) -> Result<SwitchPart<P>, Refusal>;
}

/// A design as everybody sees it: what [`Design`] says, without its types.
pub trait AnyDesign: Debug + Send + Sync + Parts<Numbers> + Parts<LengthOnly> + Parts<Provenance> {
    /// [`Design::name`].
    fn name(&self) -> &'static str;
    /// [`Design::summary`].
    fn summary(&self) -> &'static str;
    /// [`Design::fabrics`].
    fn fabrics(&self) -> &'static [FabricKind];
    /// [`Design::collectives`].
    fn collectives(&self, fabric: FabricKind) -> &'static [Collective];
    /// [`Design::offers_writes`].
    fn offers_writes(&self) -> bool;
    /// [`Design::version`].
    fn version(&self) -> u32;
    /// [`Design::parts_of`].
    fn parts_of(&self) -> &'static [&'static str];
    /// [`Design::keeps`].
    fn keeps(&self) -> &'static [&'static str];
    /// [`Design::framing`].
    fn framing(&self) -> Framing;
    /// [`Design::has_credits`].
    ///
    /// # Errors
    /// If the settings are not the design's.
    fn has_credits(&self, settings: &Settings) -> Result<bool, Refusal>;
    /// [`Design::runs_in_steps`].
    ///
    /// # Errors
    /// If the values make no sense.
    fn runs_in_steps(&self, settings: &Settings, collective: Collective) -> Result<bool, Refusal>;
    /// [`Design::closed_form`].
    ///
    /// # Errors
    /// If the values make no sense, or the design has no such form.
    fn closed_form(
        &self,
        form: ClosedForm,
        settings: &Settings,
        premises: &Premises<'_>,
    ) -> Result<f64, Refusal>;
    /// [`Design::model`].
    fn model(&self) -> Model;
    /// Every key of its parameters, with what it means.
    fn help(&self) -> Vec<Help>;
    /// The defaults of its parameters.
    fn defaults(&self) -> Settings;
    /// Sets a key of its parameters; see [`Settings::set`].
    ///
    /// # Errors
    /// As there.
    fn set(&self, settings: &mut Settings, key: &str, value: &serde_json::Value) -> Result<(), Refusal>;
    /// Whether the values make sense, and how queue pairs are set up with them.
    ///
    /// # Errors
    /// If they make none.
    fn transport(&self, settings: &Settings) -> Result<Transport, Refusal>;
    /// [`Design::plan`].
    ///
    /// # Errors
    /// As there, and if the values make no sense.
    fn plan(&self, settings: &Settings, placement: &Placement) -> Result<Plan, Refusal>;
}

impl<D: Design, P: Payload> Parts<P> for D {
    fn rank_part(
        &self,
        context: &GroupContext,
        mutation: Option<&str>,
    ) -> Result<Box<dyn AnyProgram<P>>, Refusal> {
        self.rank(&params(self, context)?, context.role.get()?, context, mutation)
    }

    fn switch_part(&self, context: &GroupContext, mutation: Option<&str>) -> Result<SwitchPart<P>, Refusal> {
        self.switch(&params(self, context)?, context.role.get()?, context, mutation)
    }
}

/// The parameters of a context, if it is this version's and makes sense whatever the design: parts may size buffers by them.
fn params<D: Design>(design: &D, context: &GroupContext) -> Result<D::Params, Refusal> {
    let (expected, found) = (design.version(), context.version);
    if expected != found {
        return Err(Refusal::new(
            alloc::format!("version {expected} of the parameters of {}", design.name()),
            alloc::format!("version {found}"),
            "run the same version at both ends",
        ));
    }
    context.check()?;
    checked::<D>(&context.settings)
}

/// The values as the design's own type, if a queue pair could be set up with them.
fn checked<D: Design>(settings: &Settings) -> Result<D::Params, Refusal> {
    let params = settings.get::<D::Params>()?;
    params.as_ref().check()?;
    Ok(params)
}

impl<D: Design> AnyDesign for D {
    fn name(&self) -> &'static str {
        Design::name(self)
    }

    fn summary(&self) -> &'static str {
        Design::summary(self)
    }

    fn fabrics(&self) -> &'static [FabricKind] {
        Design::fabrics(self)
    }

    fn collectives(&self, fabric: FabricKind) -> &'static [Collective] {
        Design::collectives(self, fabric)
    }

    fn offers_writes(&self) -> bool {
        Design::offers_writes(self)
    }

    fn version(&self) -> u32 {
        Design::version(self)
    }

    fn parts_of(&self) -> &'static [&'static str] {
        Design::parts_of(self)
    }

    fn keeps(&self) -> &'static [&'static str] {
        Design::keeps(self)
    }

    fn framing(&self) -> Framing {
        Design::framing(self)
    }

    fn has_credits(&self, settings: &Settings) -> Result<bool, Refusal> {
        Ok(Design::has_credits(self, &settings.get()?))
    }

    fn runs_in_steps(&self, settings: &Settings, collective: Collective) -> Result<bool, Refusal> {
        Ok(Design::runs_in_steps(self, &settings.get()?, collective))
    }

    fn closed_form(
        &self,
        form: ClosedForm,
        settings: &Settings,
        premises: &Premises<'_>,
    ) -> Result<f64, Refusal> {
        let value = Design::closed_form(self, form, &settings.get()?, premises);
        value.ok_or_else(|| {
            let found = alloc::format!("{}, of which none is published", Design::name(self));
            Refusal::new(alloc::format!("a design with a closed form of {form:?}"), found, "name another")
        })
    }

    fn model(&self) -> Model {
        Design::model(self)
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

    fn transport(&self, settings: &Settings) -> Result<Transport, Refusal> {
        Ok(checked::<D>(settings)?.as_ref().clone())
    }

    fn plan(&self, settings: &Settings, placement: &Placement) -> Result<Plan, Refusal> {
        let params = checked::<D>(settings)?;
        let plan = Design::plan(self, &params, placement)?;
        let plan = plan.map_roles(|role| Role::of(&role), |role| Role::of(&role))?;
        plan.in_lanes(params.as_ref().lanes)
    }
}

/// A kind of payload that nodes can be made for.
pub trait PayloadKind: Payload {
    /// What nodes run of a design for this kind.
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self>;

    /// The same on the memory fabric.
    fn memory_parts(design: &dyn AnyMemoryDesign) -> &dyn MemoryParts<Self>;
}

impl PayloadKind for Numbers {
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self> {
        design
    }

    fn memory_parts(design: &dyn AnyMemoryDesign) -> &dyn MemoryParts<Self> {
        design
    }
}

impl PayloadKind for LengthOnly {
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self> {
        design
    }

    fn memory_parts(design: &dyn AnyMemoryDesign) -> &dyn MemoryParts<Self> {
        design
    }
}

impl PayloadKind for Provenance {
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self> {
        design
    }

    fn memory_parts(design: &dyn AnyMemoryDesign) -> &dyn MemoryParts<Self> {
        design
    }
}
