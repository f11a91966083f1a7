//! Parameters as documents of keys: what is set, what is refused, and what is said of it.

use quincunx_design::{Help, Params, Refusal, Settings, Value};
use quincunx_units::{ByteCount, Duration};
use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Toy {
    toy: Wheels,
    name: Option<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default)]
struct Wheels {
    wheels: u16,
    length: ByteCount,
    rest: Option<Duration>,
}

impl Default for Wheels {
    fn default() -> Self {
        Self { wheels: 4, length: ByteCount::new(8), rest: None }
    }
}

impl Params for Toy {
    fn help() -> Vec<Help> {
        vec![
            ("toy.wheels", "how many"),
            ("toy.length", "of it"),
            ("toy.rest", "after each turn"),
            ("name", ""),
        ]
    }

    fn check(&self) -> Result<(), Refusal> {
        match self.toy.wheels {
            0 => Err(Refusal::new("`toy.wheels` above zero", 0, "add one")),
            _ => Ok(()),
        }
    }
}

fn set(key: &str, value: impl Into<Value>) -> Result<Settings, Refusal> {
    let mut settings = Settings::defaults::<Toy>();
    settings.set::<Toy>(key, &value.into()).map(|()| settings)
}

fn get(text: &str) -> Result<Toy, Refusal> {
    Settings::parse(text)?.get()
}

#[test]
fn a_key_that_is_set_is_read_and_others_keep_their_defaults() {
    let toy: Toy = set("toy.rest", "5ms").unwrap().get().unwrap();
    assert_eq!(toy.toy, Wheels { rest: Some(Duration::from_millis(5)), ..Wheels::default() });
}

#[test]
fn an_unknown_key_is_refused_with_those_that_there_are() {
    let keys = "expected one of the keys name, toy.length, toy.rest, toy.wheels, found ";
    for key in ["toy.wings", "toy", "wheels", "", "toy.wheels.spokes"] {
        let error = set(key, 1).unwrap_err().to_string();
        assert_eq!(error, format!("{keys}\"{key}\"; name one of them"));
    }
    // Those of another process, too: what it set would be lost in silence.
    assert_eq!(
        get(r#"{"toy":{"wings":2}}"#).unwrap_err().to_string(),
        format!("{keys}\"toy.wings\"; name one of them")
    );
}

#[test]
fn a_value_of_a_wrong_kind_names_its_key_and_changes_nothing() {
    let mut settings = Settings::defaults::<Toy>();
    for (key, value) in [("toy.wheels", "many"), ("toy.length", "5 feet"), ("toy.rest", "now")] {
        let error = settings.set::<Toy>(key, &value.into()).unwrap_err().to_string();
        assert!(error.ends_with(&format!(" in `{key}`")) && !error.contains('\n'), "{error}");
    }
    for wheels in ["-1", "65536", "4.5", "true", "[4]"] {
        let error = get(&format!("{{\"toy\":{{\"wheels\":{wheels}}}}}")).unwrap_err().to_string();
        assert!(error.ends_with("in `toy.wheels`") && !error.contains('\n'), "{error}");
    }
    assert_eq!(settings, Settings::defaults::<Toy>());
}

#[test]
fn values_that_make_no_sense_are_refused_when_they_are_read() {
    let zero = set("toy.wheels", 0).unwrap();
    assert_eq!(
        zero.get::<Toy>().unwrap_err().to_string(),
        "expected `toy.wheels` above zero, found 0; add one"
    );
}

#[test]
fn settings_are_read_back_as_they_are_printed() {
    let settings = set("name", "a \"b\"\n").unwrap();
    let text = settings.to_text();
    assert!(!text.contains('\n'), "{text}");
    assert_eq!(Settings::parse(&text), Ok(settings));
}

#[test]
fn what_is_no_json_object_is_refused_in_one_line() {
    for text in ["", "[]", "3", "null", "\"toy\"", "{", "{\"toy\"}", "{} {}"] {
        let error = Settings::parse(text).unwrap_err().to_string();
        assert!(
            error.starts_with("expected parameters as a JSON object, found ") && !error.contains('\n'),
            "{error}"
        );
    }
    // So deep that a reader which called itself would run out of stack.
    let deep = "[".repeat(1 << 20);
    assert!(Settings::parse(&deep).is_err());
}

#[test]
fn a_missing_value_is_the_default() {
    assert_eq!(get("{}"), Ok(Toy::default()));
    assert_eq!(get(r#"{"toy":{"rest":null}}"#), Ok(Toy::default()));
}

#[test]
fn people_see_every_key_with_its_default_and_what_it_means() {
    let described = Settings::defaults::<Toy>().describe(&Toy::help());
    let lines: Vec<_> =
        described.iter().map(|one| (one.key.as_str(), one.default.as_str(), one.help)).collect();
    let expected = [
        ("name", "", ""),
        ("toy.length", "8B", "of it"),
        ("toy.rest", "", "after each turn"),
        ("toy.wheels", "4", "how many"),
    ];
    assert_eq!(lines, expected);
}
