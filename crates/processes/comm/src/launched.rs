//! Which rank a process is of which job, by what its starter has put into the environment: torchrun and `quincunx run`, mpirun of Open MPI,
//! mpiexec of MPICH, or srun. Where several have (mpirun in a job of Slurm's, torchrun on each node of one) the innermost counts.

use crate::CommError;

/// What is read of one starter.
struct Starter {
    name: &'static str,
    rank: &'static str,
    world: &'static str,
    /// Ranks on this machine, as a number, or of each machine as Slurm has it.
    local: &'static str,
    /// What tells the job from others, and from itself when it is started again.
    job: &'static [&'static str],
}

/// The innermost first.
const STARTERS: [Starter; 4] = [
    Starter {
        name: "torchrun",
        rank: "RANK",
        world: "WORLD_SIZE",
        local: "LOCAL_WORLD_SIZE",
        job: &["MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"],
    },
    Starter {
        name: "mpirun",
        rank: "OMPI_COMM_WORLD_RANK",
        world: "OMPI_COMM_WORLD_SIZE",
        local: "OMPI_COMM_WORLD_LOCAL_SIZE",
        job: &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"],
    },
    Starter {
        name: "mpiexec",
        rank: "PMI_RANK",
        world: "PMI_SIZE",
        local: "MPI_LOCALNRANKS",
        job: &["PMI_JOBID", "HYDRA_JOBID"],
    },
    Starter {
        name: "srun",
        rank: "SLURM_PROCID",
        world: "SLURM_NTASKS",
        local: "SLURM_STEP_TASKS_PER_NODE",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"],
    },
];

/// What torchrun sets beside a rank, and nobody does by hand.
const TORCHRUN: &str = "TORCHELASTIC_RUN_ID";

/// A process's place in its job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Launched {
    pub(crate) rank: u16,
    pub(crate) world: u16,
    /// Ranks of each machine, if all have as many and somebody says so.
    pub(crate) server: Option<u16>,
    /// What nodes of the job are called, without the rank.
    pub(crate) job: String,
}

impl Launched {
    /// By the variables that `said` knows; empty ones say nothing. A process that nobody has started as a rank is one alone.
    ///
    /// # Errors
    /// If a variable makes no sense, one is missing beside another, or two starters say that this is another rank.
    pub(crate) fn read(said: impl Fn(&str) -> Option<String>) -> Result<Self, CommError> {
        let found =
            STARTERS.iter().find(|starter| said(starter.rank).is_some() || said(starter.world).is_some());
        let starter = found.unwrap_or(&STARTERS[0]);
        let number = |name: &str| {
            let number = |value: String| {
                value.parse().map_err(|_| {
                    CommError::misuse(
                        format!("a number below 65536 in {name}"),
                        format!("\"{value}\""),
                        "correct the variable",
                    )
                })
            };
            said(name).map(number).transpose()
        };
        let (rank, world) = match (number(starter.rank)?, number(starter.world)?) {
            (Some(rank), Some(world)) => (rank, world),
            (None, None) => (0, 1),
            (Some(_), None) => return Err(lone(starter.rank, starter.world)),
            (None, Some(1)) => (0, 1),
            (None, Some(_)) => return Err(lone(starter.world, starter.rank)),
        };
        if starter.name == "torchrun" && said(TORCHRUN).is_none() {
            // Somebody has set it by hand, from another starter's words maybe.
            for other in &STARTERS[1..] {
                if let (Some(its_rank), Some(its_world)) = (number(other.rank)?, number(other.world)?)
                    && its_world == world
                    && its_rank != rank
                {
                    return Err(CommError::misuse(
                        format!("{} and {} to name one rank of {world}", starter.rank, other.rank),
                        format!("{rank} and {its_rank}"),
                        &format!("unset {} and {}, or correct them", starter.rank, starter.world),
                    ));
                }
            }
        }
        let server = said(starter.local).and_then(|text| ranks_of_each(&text));
        Ok(Self { rank, world, server, job: starter.job_name(&said) })
    }
}

impl Starter {
    /// Started again, it has other nodes than before.
    fn job_name(&self, said: &impl Fn(&str) -> Option<String>) -> String {
        let words: Vec<String> = self.job.iter().map(|name| said(name).unwrap_or_default()).collect();
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let words: String = words.join("-").chars().map(plain).collect();
        match self.name {
            "torchrun" => format!("job-{words}."),
            name => format!("{name}-{words}."),
        }
    }
}

fn lone(there: &str, missing: &str) -> CommError {
    CommError::misuse(format!("{missing} beside {there}"), "none", &format!("set both, or unset {there}"))
}

/// `8`, or as Slurm has it `8(x2),8`: what all machines have, if that is one number.
fn ranks_of_each(text: &str) -> Option<u16> {
    let mut all = text.split(',').map(|part| part.split('(').next().unwrap_or_default().parse::<u16>().ok());
    let first = all.next()??;
    all.all(|other| other == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Launched, CommError> {
        let said = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned()).filter(|value| !value.is_empty())
        };
        Launched::read(said)
    }

    fn refusal(variables: &[(&str, &str)]) -> String {
        read(variables).unwrap_err().to_string()
    }

    const SRUN: [(&str, &str); 5] = [
        ("SLURM_PROCID", "3"),
        ("SLURM_NTASKS", "4"),
        ("SLURM_STEP_TASKS_PER_NODE", "2(x2)"),
        ("SLURM_JOB_ID", "71"),
        ("SLURM_STEP_ID", "0"),
    ];
    const MPIRUN: [(&str, &str); 4] = [
        ("OMPI_COMM_WORLD_RANK", "1"),
        ("OMPI_COMM_WORLD_SIZE", "4"),
        ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ("PMIX_NAMESPACE", "prterun-a-12@1"),
    ];

    #[test]
    fn each_starter_says_rank_size_and_job() {
        let torchrun =
            [("RANK", "2"), ("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "2"), ("MASTER_PORT", "29500")];
        let launched = |rank, world, server, job: &str| Launched { rank, world, server, job: job.into() };
        assert_eq!(read(&torchrun).unwrap(), launched(2, 4, Some(2), "job-29500-."));
        assert_eq!(read(&MPIRUN).unwrap(), launched(1, 4, Some(4), "mpirun-prterun-a-12-1-."));
        assert_eq!(read(&SRUN).unwrap(), launched(3, 4, Some(2), "srun-71-0-."));
        let mpich = [("PMI_RANK", "0"), ("PMI_SIZE", "2")];
        assert_eq!(read(&mpich).unwrap(), launched(0, 2, None, "mpiexec--."));
        assert_eq!(read(&[]).unwrap(), launched(0, 1, None, "job--."), "nobody");
    }

    #[test]
    fn a_job_that_is_queued_again_has_another_name() {
        let again = [&SRUN[..], &[("SLURM_RESTART_COUNT", "1")]].concat();
        assert_ne!(read(&again).unwrap().job, read(&SRUN).unwrap().job);
    }

    #[test]
    fn the_innermost_starter_counts() {
        let both = [&SRUN[..], &MPIRUN].concat();
        assert_eq!(read(&both).unwrap().rank, 1, "mpirun in a job of Slurm's");
        // One srun task a node, which is torchrun, with one rank each in another order.
        let torchrun = [("RANK", "0"), ("WORLD_SIZE", "4"), ("TORCHELASTIC_RUN_ID", "none")];
        assert_eq!(read(&[&SRUN[..], &torchrun].concat()).unwrap().rank, 0);
    }

    #[test]
    fn two_that_disagree_and_one_that_says_half_are_told_with_the_variables() {
        let by_hand = [&SRUN[..], &[("RANK", "0"), ("WORLD_SIZE", "4")]].concat();
        assert_eq!(
            refusal(&by_hand),
            "expected RANK and SLURM_PROCID to name one rank of 4, found 0 and 3; unset RANK and WORLD_SIZE, or correct them"
        );
        assert_eq!(
            refusal(&[("RANK", "1")]),
            "expected WORLD_SIZE beside RANK, found none; set both, or unset RANK"
        );
        assert_eq!(
            refusal(&[("SLURM_NTASKS", "2")]),
            "expected SLURM_PROCID beside SLURM_NTASKS, found none; set both, or unset SLURM_NTASKS"
        );
        assert!(refusal(&[("RANK", "x"), ("WORLD_SIZE", "2")]).contains("found \"x\""));
        assert!(
            read(&[("RANK", "1"), ("WORLD_SIZE", "2"), ("SLURM_PROCID", "")]).is_ok(),
            "empty says nothing"
        );
    }

    #[test]
    fn machines_with_as_many_ranks_each_are_servers() {
        for (text, expected) in
            [("4", Some(4)), ("4(x2)", Some(4)), ("2,2(x3)", Some(2)), ("2,1", None), ("", None), ("x", None)]
        {
            assert_eq!(ranks_of_each(text), expected, "{text}");
        }
    }
}
