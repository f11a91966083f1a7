//! A design: what its crate implements, and what everybody else sees of it.

use crate::{
    About, AnyDatapath, AnySwitchUnit, Context, FabricKind, Help, Params, Place, Placement, Plan, Refusal,
    Role, Settings, Transport,
};
use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;
use core::fmt::Debug;
use quincunx_collective::{Collective, LengthOnly, Numbers, Payload, Provenance};
use quincunx_engine::Channels;
use quincunx_engine::shared_memory::AnyKernel;
use quincunx_engine::verbs::AnyProgram;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a rank runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Endpoint<P: Payload> {
    /// A host: this runs above its queue pairs.
    Program(Box<dyn AnyProgram<P>>),
    /// An accelerator: this reads and writes others' memory.
    Kernel(Box<dyn AnyKernel<P>>),
}

impl<P: Payload> Endpoint<P> {
    /// What runs above queue pairs.
    ///
    /// # Errors
    /// If it is a kernel.
    pub fn program(self) -> Result<Box<dyn AnyProgram<P>>, Refusal> {
        match self {
            Self::Program(program) => Ok(program),
            Self::Kernel(_) => Err(Refusal::new(
                "a design above queue pairs",
                "one that runs on a memory fabric",
                "name another design, or another fabric",
            )),
        }
    }

    /// What runs on an accelerator.
    ///
    /// # Errors
    /// If it is a program.
    pub fn kernel(self) -> Result<Box<dyn AnyKernel<P>>, Refusal> {
        match self {
            Self::Kernel(kernel) => Ok(kernel),
            Self::Program(_) => Err(Refusal::new(
                "a design that runs on a memory fabric",
                "one above queue pairs",
                "name another design, or another fabric",
            )),
        }
    }
}

/// What a switch runs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SwitchPart<P: Payload> {
    /// Connections end at the switch; this runs above its queue pairs, as on a rank.
    Program(Box<dyn AnyProgram<P>>),
    /// Frames for the switch pass through this.
    Datapath(Box<dyn AnyDatapath<P>>),
    /// Frames from rank to rank pass through this on their way: those of the connections that the plan names as passing.
    Passing(Box<dyn AnyDatapath<P>>),
    /// Packets of a memory fabric are taken by this.
    Unit(Box<dyn AnySwitchUnit<P>>),
}

/// A design: what it *is* is data, what it *does* is three functions. One implementation in each engine's crate, one line in the
/// catalog for each of its values.
///
/// What it promises: [`plan`](Self::plan) is a pure function; parts are made of a node's context alone; whatever a peer sends, parts do
/// not panic.
pub trait Design: Debug + Send + Sync + 'static {
    /// Every option, typed, with units and defaults. The same keys in TOML, `--set`, JSON and the manager's messages.
    type Params: Params;
    /// What the plan says to a rank beside its connections; `()` if that is nothing.
    type RankRole: Serialize + DeserializeOwned;
    /// The same for a switch; `()` for a design among hosts.
    type SwitchRole: Serialize + DeserializeOwned;

    /// What it is.
    fn about(&self) -> &About;

    /// Who is connected with whom, what each node is to do, and what it must have for that.
    ///
    /// # Errors
    /// If the placement does not suit the design, or the parameters do not suit the placement.
    fn plan(
        &self,
        params: &Self::Params,
        placement: &Placement,
    ) -> Result<Plan<Self::RankRole, Self::SwitchRole>, Refusal>;

    /// What runs on a rank.
    ///
    /// # Errors
    /// If the context makes no sense.
    fn endpoint<P: Payload>(
        &self,
        params: &Self::Params,
        role: Self::RankRole,
        context: &Context<'_>,
    ) -> Result<Endpoint<P>, Refusal>;

    /// What runs in a switch. On a memory fabric it is for all streams that share it.
    ///
    /// # Errors
    /// If the context makes no sense, or the design has nothing to run there.
    fn switch<P: Payload>(
        &self,
        _params: &Self::Params,
        _role: Self::SwitchRole,
        _context: &Context<'_>,
    ) -> Result<SwitchPart<P>, Refusal> {
        Err(Refusal::new(
            format!("a rank for {}, which has nothing in switches", self.about().name),
            "a switch",
            "run the same version at both ends",
        ))
    }
}

/// A part, and how the queue pairs below it are set up; a memory fabric has none.
#[derive(Debug)]
pub struct Installed<T> {
    /// What runs.
    pub part: T,
    /// The queue pairs.
    pub transport: Transport,
}

/// What nodes run of a design, for one kind of payload.
pub trait Parts<P: Payload> {
    /// What runs on the rank of a context, in all of its channels.
    ///
    /// # Errors
    /// If the context makes no sense, or is another version's.
    fn endpoint_part(&self, context: &Context<'_>) -> Result<Installed<Endpoint<P>>, Refusal>;

    /// What runs in the switch of a context, which is one channel's.
    ///
    /// # Errors
    /// As [`endpoint_part`](Self::endpoint_part).
    fn switch_part(&self, context: &Context<'_>) -> Result<Installed<SwitchPart<P>>, Refusal>;
}

/// A design as everybody sees it: what [`Design`] says, without its types.
pub trait AnyDesign: Debug + Send + Sync + Parts<Numbers> + Parts<LengthOnly> + Parts<Provenance> {
    /// What it is.
    fn about(&self) -> &About;

    /// Every key of its parameters, with what it means.
    fn help(&self) -> Vec<Help>;

    /// The defaults of its parameters.
    fn defaults(&self) -> Settings;

    /// The defaults of those that mean something on a kind of fabric.
    fn defaults_on(&self, fabric: FabricKind) -> Settings;

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
    /// As there, if the values make no sense, or if the design does not offer what is asked for.
    fn plan(&self, settings: &Settings, placement: &Placement) -> Result<Plan, Refusal>;

    /// What it plans for two ranks around a switch, with its defaults: whether it has a part there is to be seen in it.
    ///
    /// # Errors
    /// If it does not run there.
    fn smallest_plan(&self) -> Result<Plan, Refusal> {
        self.plan(&self.defaults(), &Placement::smallest())
    }

    /// What people call it.
    fn name(&self) -> &'static str {
        self.about().name
    }

    /// What it is, in a line.
    fn summary(&self) -> &'static str {
        self.about().summary
    }

    /// What it offers on a kind of fabric; the root of those that have one is any.
    fn collectives(&self, fabric: FabricKind) -> &'static [Collective] {
        self.about().collectives(fabric)
    }
}

impl<D: Design, P: Payload> Parts<P> for D {
    fn endpoint_part(&self, context: &Context<'_>) -> Result<Installed<Endpoint<P>>, Refusal> {
        let (params, transport) = read(self, context)?;
        let channels = match context.place {
            Place::Group(group) if group.channels != 1 => group.in_channels()?,
            _ => {
                let part = self.endpoint(&params, context.role().get()?, context)?;
                return Ok(Installed { part, transport });
            }
        };
        let queue_pairs = channels[0].connections.len() as u16;
        let program = |channel| {
            let context = Context { place: Place::Group(channel), ..*context };
            self.endpoint(&params, context.role().get()?, &context)?.program()
        };
        let programs = channels.iter().map(program).collect::<Result<_, Refusal>>()?;
        let message = (transport.mtu * u64::from(transport.message)).as_usize();
        let part = Endpoint::Program(Box::new(Channels::new(programs, queue_pairs, message)));
        Ok(Installed { part, transport })
    }

    fn switch_part(&self, context: &Context<'_>) -> Result<Installed<SwitchPart<P>>, Refusal> {
        let (params, transport) = read(self, context)?;
        let part = self.switch(&params, context.role().get()?, context)?;
        Ok(Installed { part, transport })
    }
}

/// The parameters of a context, if it is this version's and makes sense whatever the design: parts may size buffers by them.
fn read<D: Design>(design: &D, context: &Context<'_>) -> Result<(D::Params, Transport), Refusal> {
    if let Place::Group(context) = context.place {
        let (ours, theirs) = (design.about().version, context.version);
        if ours != theirs {
            return Err(Refusal::of_versions(
                design.about().name,
                ("this node", ours),
                ("the manager", theirs),
            ));
        }
        context.check()?;
    }
    checked::<D>(context.settings())
}

/// The values as the design's own type, if a queue pair could be set up with them.
fn checked<D: Design>(settings: &Settings) -> Result<(D::Params, Transport), Refusal> {
    let params = settings.get::<D::Params>()?;
    let transport = params.transport().unwrap_or_default();
    transport.check()?;
    Ok((params, transport))
}

impl<D: Design> AnyDesign for D {
    fn about(&self) -> &About {
        Design::about(self)
    }

    fn help(&self) -> Vec<Help> {
        D::Params::help()
    }

    fn defaults(&self) -> Settings {
        Settings::defaults::<D::Params>()
    }

    fn defaults_on(&self, fabric: FabricKind) -> Settings {
        AnyDesign::defaults(self).only(D::Params::tables_on(fabric))
    }

    fn set(&self, settings: &mut Settings, key: &str, value: &serde_json::Value) -> Result<(), Refusal> {
        settings.set::<D::Params>(key, value)
    }

    fn transport(&self, settings: &Settings) -> Result<Transport, Refusal> {
        Ok(checked::<D>(settings)?.1)
    }

    fn plan(&self, settings: &Settings, placement: &Placement) -> Result<Plan, Refusal> {
        if let Some(memory) = &placement.memory {
            refuse_unoffered(Design::about(self), memory.request.collective, FabricKind::Memory)?;
        }
        let (params, transport) = checked::<D>(settings)?;
        let plan = Design::plan(self, &params, placement)?;
        let plan = plan.map_roles(|role| Role::of(&role), |role| Role::of(&role))?;
        plan.in_channels(transport.channels)
    }
}

/// Collectives with a root stand for those with any.
fn refuse_unoffered(about: &About, collective: Collective, fabric: FabricKind) -> Result<(), Refusal> {
    let wanted = core::mem::discriminant(&collective);
    let offered = about.collectives(fabric);
    if offered.iter().any(|offered| core::mem::discriminant(offered) == wanted) {
        return Ok(());
    }
    let names: Vec<&str> = offered.iter().map(|offered| offered.name()).collect();
    Err(Refusal::new(
        format!("a collective that {} offers ({})", about.name, names.join(", ")),
        collective,
        "name another design or another collective",
    ))
}

/// A kind of payload that nodes can be made for.
pub trait PayloadKind: Payload {
    /// What nodes run of a design for this kind.
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self>;
}

impl PayloadKind for Numbers {
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self> {
        design
    }
}

impl PayloadKind for LengthOnly {
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self> {
        design
    }
}

impl PayloadKind for Provenance {
    fn parts(design: &dyn AnyDesign) -> &dyn Parts<Self> {
        design
    }
}
