//! `quincunx plan`: whether a design is worth it for a model on a cluster.

use clap::Args;
use quincunx_design::Catalog;
use quincunx_language::Deployment;
use quincunx_sim::{
    Doubt, Prediction, PredictionError, Question, Saved, SwitchNeeds, Worth, ignore_progress,
};
use quincunx_units::{BitRate, Duration, Probability};
use serde_json::{Value, json};

use crate::Failure;
use crate::answers::{Answers, questions};
use crate::asked::Asked;
use crate::interrupt;
use crate::kept::Kept;
use crate::out::say;
use crate::predicted::Case;
use crate::results::{Printed, envelope};
use crate::table::{Align, table};

/// `quincunx plan`.
#[derive(Args)]
#[command(after_help = "Examples:
  quincunx plan --cluster epic-star8 --model llama3-8b          training, a replica on each host
  quincunx plan --cluster scin-dgx8 --model llama2-70b          answers of a server
  quincunx plan serving-llama2 --load 4
  quincunx plan epic-gpt3-13b --worth 10% --json

The best design without a part in switches against the best that has one: what it saves of the times that people wait for, what it needs of
switches, and whether what is saved reaches --worth even if collectives and layers are as far off as the project knows them to be: collectives as
far as nine of ten published figures that it predicted of such fabrics, layers as far as measured ones that were left out of a profile, or a
roofline. Then the same with other batches, links and accelerators: what would change the answer.")]
pub(crate) struct Plan {
    #[command(flatten)]
    asked: Asked,
    /// The least share of a time that must be saved for it to be worth it
    #[arg(long, value_name = "SHARE", default_value = "5%")]
    worth: Probability,
    #[command(flatten)]
    printed: Printed,
}

/// A design among those that are compared.
struct Compared {
    design: String,
    found: Result<Prediction, PredictionError>,
    needs: Option<SwitchNeeds>,
}

/// What is said of a deployment.
struct Advice {
    all: Vec<Compared>,
    /// The fastest that needs nothing of switches.
    before: String,
    /// The fastest that does.
    now: String,
    needs: SwitchNeeds,
    saved: Vec<Saved>,
    doubt: Doubt,
    worth: Worth,
    changes: Vec<Change>,
}

/// The same with another value of a key.
struct Change {
    key: String,
    value: String,
    saved: Result<Vec<Saved>, String>,
}

impl Plan {
    pub(crate) fn run(self, catalog: Catalog) -> Result<(), Failure> {
        let kept = Kept::open();
        let base = [self.asked.case(&[], catalog)?];
        let asked = questions(&base, catalog, &kept.times)?;
        let question = &asked[0];
        let stop = interrupt::flag()?;
        let runs: Vec<_> = question.all_designs().into_iter().map(|design| (0, design)).collect();
        let answers = Answers::find(&asked, &runs, &stop)?;
        Failure::unless_all(runs.len(), answers.of(0, &question.all_designs()).len(), &answers.interrupted)?;
        let designs = question.all_designs();
        let all = self.compared(question, answers.of(0, &designs))?;
        let named = question.designs();
        if let Some(error) =
            all.iter().find_map(|one| named.contains(&one.design).then(|| one.found.as_ref().err()).flatten())
        {
            return Err(Failure::input(error));
        }
        let (before, now) = best(question, &all)?;
        // What would change: those that are near the fastest, with one key changed each time.
        let mut cases = Vec::new();
        let mut changes = Vec::new();
        for (key, value) in differences(&base[0].deployment, question.link_rate()) {
            match self.asked.case(&[(key.clone(), value.clone())], catalog) {
                Ok(case) => cases.push(case),
                Err(error) => changes.push(Change { key, value, saved: Err(error.message()) }),
            }
        }
        let mut possible = Vec::new();
        for case in cases {
            let [(key, value)] = &case.keys[..] else { unreachable!("a change is of one key") };
            match Question::new(&case.deployment, catalog, &kept.times) {
                Ok(_) => possible.push(case),
                Err(error) => {
                    changes.push(Change {
                        key: key.clone(),
                        value: value.clone(),
                        saved: Err(error.to_string()),
                    });
                }
            }
        }
        let others = questions(&possible, catalog, &kept.times)?;
        let near = near(&all, [&before, &now]);
        let runs: Vec<_> = (0..others.len())
            .flat_map(|case| near.iter().map(move |design| (case, design.clone())))
            .collect();
        let answers = Answers::find(&others, &runs, &stop)?;
        let done: usize = (0..others.len()).map(|case| answers.of(case, &near).len()).sum();
        Failure::unless_all(runs.len(), done, &answers.interrupted)?;
        kept.close();
        for (number, (case, question)) in possible.iter().zip(&others).enumerate() {
            let [(key, value)] = &case.keys[..] else { unreachable!("a change is of one key") };
            let saved = self.compared(question, answers.of(number, &near)).and_then(|all| {
                let (before, now) = best(question, &all)?;
                question.saved(&before, &now, &mut ignore_progress).map_err(Failure::input)
            });
            let saved = saved.map_err(Failure::message);
            changes.push(Change { key: key.clone(), value: value.clone(), saved });
        }
        let saved = question.saved(&before, &now, &mut ignore_progress).map_err(Failure::input)?;
        let found = question.answer(&now, &mut ignore_progress).map_err(Failure::input)?;
        let needs = question.needs(&now).map_err(Failure::input)?.expect("it has a part in switches");
        let worth = Worth::of(&saved, self.worth.value());
        let advice = Advice { all, before, now, needs, saved, doubt: question.doubt(&found), worth, changes };
        if self.printed.is_for_programs() {
            self.printed.print(&self.json_of(&advice, question));
        } else {
            self.show(&advice, question, &base[0]);
        }
        Ok(())
    }

    /// Designs with what they need.
    fn compared(
        &self,
        question: &Question<'_>,
        answers: Vec<(String, Result<Prediction, PredictionError>)>,
    ) -> Result<Vec<Compared>, Failure> {
        answers
            .into_iter()
            .map(|(design, found)| {
                let needs = match found {
                    Ok(_) => question.needs(&design).map_err(Failure::input)?,
                    Err(_) => None,
                };
                Ok(Compared { design, found, needs })
            })
            .collect()
    }

    fn show(&self, advice: &Advice, question: &Question<'_>, case: &Case) {
        let Deployment { split, products, network, .. } = &case.deployment;
        say!(
            "{} over {} accelerators (tp {}, pp {}, dp {}, ep {}), {}, on {}",
            question.model().name,
            split.accelerators(),
            split.tp,
            split.pp,
            split.dp,
            split.ep,
            products.name(),
            network.fabric
        );
        let figures: Vec<&str> = advice.saved.iter().map(|saved| saved.figure).collect();
        let titles: Vec<String> = figures.iter().map(|figure| format!("{figure} (ms)")).collect();
        let mut columns = vec![
            ("design", Align::Left),
            ("switches", Align::Right),
            ("ports", Align::Right),
            ("memory", Align::Right),
        ];
        columns.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
        let line = |one: &Compared| {
            let found = one.found.as_ref().ok()?;
            let needs = one.needs.as_ref().map_or(["-".into(), "-".into(), "-".into()], |needs| {
                [needs.switches.len().to_string(), needs.ports.to_string(), needs.memory.to_string()]
            });
            let times = found.figures();
            let times = figures.iter().map(|figure| {
                let time = times.iter().find(|(name, _)| name == figure).map(|(_, time)| *time);
                time.map_or("-".into(), |time| format!("{:.3}", time.as_secs_f64() * 1e3))
            });
            Some([one.design.clone()].into_iter().chain(needs).chain(times).collect::<Vec<_>>())
        };
        say!("{}", table(&columns, &advice.all.iter().filter_map(line).collect::<Vec<_>>()).trim_end());
        for Compared { design, found, .. } in &advice.all {
            if let Err(error) = found {
                say!("{design}: {error}");
            }
        }
        say!("\n{}", words(advice, self.worth.value()));
        say!("\nwhat would change that");
        let mut columns = vec![("set", Align::Left)];
        let titles: Vec<String> = figures.iter().map(|figure| format!("{figure} saved")).collect();
        columns.extend(titles.iter().map(|title| (title.as_str(), Align::Right)));
        columns.push(("answer", Align::Left));
        let line = |change: &Change| {
            let set = format!("{}={}", change.key, change.value);
            match &change.saved {
                Ok(saved) => {
                    let cells = saved.iter().map(range);
                    let answer = Worth::of(saved, self.worth.value());
                    let answer =
                        if answer == advice.worth { String::new() } else { answer.name().to_owned() };
                    [set].into_iter().chain(cells).chain([answer]).collect()
                }
                Err(error) => {
                    let nothing = figures.iter().map(|_| "-".to_owned());
                    [set].into_iter().chain(nothing).chain([error.clone()]).collect()
                }
            }
        };
        say!(
            "{}",
            table(&columns, &advice.changes.iter().map(line).collect::<Vec<Vec<String>>>()).trim_end()
        );
    }

    fn json_of(&self, advice: &Advice, question: &Question<'_>) -> Value {
        let rows: Vec<Value> = advice
            .all
            .iter()
            .map(|Compared { design, found, needs }| {
                let mut row = json!({ "design": design, "model": question.model().name });
                if let Some(SwitchNeeds { switches, ports, memory, unit }) = needs {
                    row["switches"] = json!(switches);
                    row["ports"] = json!(ports);
                    row["switch_memory_bytes"] = json!(memory.bytes());
                    row["unit"] = json!(unit);
                }
                match found {
                    Ok(found) => {
                        for (figure, time) in found.figures() {
                            row[key(figure)] = json!(time.as_secs_f64() * 1e3);
                        }
                    }
                    Err(error) => row["verdict"] = json!(error.to_string()),
                }
                row
            })
            .collect();
        let saved = |all: &[Saved]| -> Value {
            let one = |one: &Saved| json!({ "figure": one.figure, "expected": one.expected, "least": one.least, "most": one.most });
            all.iter().map(one).collect()
        };
        let changes = advice.changes.iter().map(|change| match &change.saved {
            Ok(found) => json!({
                "key": change.key,
                "value": change.value,
                "saved": saved(found),
                "answer": Worth::of(found, self.worth.value()).name(),
            }),
            Err(error) => json!({ "key": change.key, "value": change.value, "verdict": error }),
        });
        let mut object = envelope("plan", &rows);
        object["advice"] = json!({
            "answer": advice.worth.name(),
            "design": advice.now,
            "baseline": advice.before,
            "worth": self.worth.value(),
            "saved": saved(&advice.saved),
            "switches": advice.needs.switches,
            "ports": advice.needs.ports,
            "switch_memory_bytes": advice.needs.memory.bytes(),
            "doubt": { "network": advice.doubt.network, "figures": advice.doubt.figures, "computation": advice.doubt.computation },
            "changes": changes.collect::<Vec<_>>(),
            "words": words(advice, self.worth.value()),
        });
        object
    }
}

/// Those that take at most so many times as long as the fastest, for one time at least, may be the fastest elsewhere.
const NEAR: f64 = 2.0;

fn near(all: &[Compared], best: [&String; 2]) -> Vec<String> {
    let figures = |one: &Compared| one.found.as_ref().ok().map(Prediction::figures);
    let all: Vec<_> = all.iter().filter_map(|one| Some((&one.design, figures(one)?))).collect();
    let least =
        |place: usize| all.iter().filter_map(|(_, figures)| figures.get(place)).map(|(_, time)| *time).min();
    let is_near = |figures: &[(&str, Duration)]| {
        let mut times = figures.iter().enumerate();
        times.any(|(place, (_, time))| {
            least(place).is_some_and(|least| time.as_secs_f64() <= NEAR * least.as_secs_f64())
        })
    };
    all.iter()
        .filter(|(design, figures)| best.contains(design) || is_near(figures))
        .map(|(design, _)| (*design).clone())
        .collect()
}

/// The fastest design that needs nothing of switches, and the fastest that does.
fn best(question: &Question<'_>, all: &[Compared]) -> Result<(String, String), Failure> {
    let fastest = |has_part: bool, what: &str| {
        let those: Vec<_> = all
            .iter()
            .filter(|one| one.found.is_err() || one.needs.is_some() == has_part)
            .map(|one| (one.design.clone(), one.found.clone()))
            .collect();
        question.choose(&those).map_err(|error| match error {
            PredictionError::NoChoice { .. } => Failure::Input(format!(
                "expected a design {what} part in switches, found none that runs there; name one by --design, or change the fabric"
            )),
            error => Failure::input(error),
        })
    };
    Ok((fastest(false, "without a")?, fastest(true, "with a")?))
}

/// Values of keys around those that there are.
fn differences(deployment: &Deployment, rate: Option<BitRate>) -> Vec<(String, String)> {
    let mut all: Vec<(&str, Vec<String>)> = Vec::new();
    let around = |value: u64, by: u64| {
        let values = [value / by, value * by].map(|value| value.max(1));
        values.into_iter().filter(|&other| other != value).map(|value| value.to_string()).collect()
    };
    if let Some(asked) = &deployment.inference {
        all.push(("inference.batch", around(asked.batch, 8)));
        all.push(("inference.prompt", around(asked.prompt, 8)));
    }
    if let Some(serving) = &deployment.serving {
        all.push(("serving.load", [0.5, 2.0].iter().map(|by| format!("{:?}", serving.load * by)).collect()));
    }
    if let Some(training) = &deployment.training {
        all.push(("training.batch", around(training.batch, 4)));
        all.push(("training.overlap", vec![(!training.overlap).to_string()]));
        let zero = deployment.split.zero;
        all.push((
            "split.zero",
            [0, 1].iter().filter(|&&other| other != zero.min(1)).map(u8::to_string).collect(),
        ));
    }
    if let Some(rate) = rate {
        let rates = [rate.bits_per_second() / 2, rate.bits_per_second() * 2];
        let rates = rates.into_iter().filter_map(BitRate::new).map(|rate| rate.to_string());
        all.push(("network.set.link.rate", rates.collect()));
    }
    all.into_iter()
        .flat_map(|(key, values)| values.into_iter().map(move |value| (key.to_owned(), value)))
        .collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 1e2)
}

/// What is saved, and how sure that is.
fn range(saved: &Saved) -> String {
    format!("{} ({:.0} to {:.0})", percent(saved.expected), saved.least * 1e2, saved.most * 1e2)
}

/// A figure's name among keys.
fn key(figure: &str) -> String {
    format!("{}_ms", figure.to_lowercase().replace(' ', "_"))
}

/// The advice in words.
fn words(advice: &Advice, worth: f64) -> String {
    let Advice { before, now, needs, saved, doubt, .. } = advice;
    let times: Vec<String> =
        saved.iter().map(|saved| format!("{} of {}", range(saved), saved.figure)).collect();
    let unit = needs.unit.map_or_else(String::new, |unit| format!(", the unit of {unit}"));
    let names = match &needs.switches[..] {
        [one] => format!("a switch, {one}"),
        [first, .., last] => format!("{} switches, {first} to {last}", needs.switches.len()),
        [] => "no switch".into(),
    };
    format!(
        "{}: {now} saves {} against {before}, the best without a part in switches; {} would do.\n\
         It needs {names}, of {} ports{unit}; {} of memory in the fullest.\n\
         In brackets: collectives {} off ({} of {} figures that papers publish of such fabrics are no farther), layers {}.",
        advice.worth.name(),
        times.join(" and "),
        percent(worth),
        needs.ports,
        needs.memory,
        percent(doubt.network),
        (doubt.figures * 9).div_ceil(10),
        doubt.figures,
        match doubt.computation {
            0.0 => "as they were measured".to_owned(),
            share => format!("{} off", percent(share)),
        }
    )
}
