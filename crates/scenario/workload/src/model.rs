//! Models, read from `models/*.toml`.

use crate::Layer;
use include_dir::{Dir, include_dir};
use quincunx_units::ByteCount;
use serde::Deserialize;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/models");

/// A network that is trained.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// `resnet-50`.
    pub name: String,
    /// Where its shape is published.
    pub source: String,
    /// Samples of each rank in an iteration, unless somebody says otherwise.
    pub batch: u32,
    /// In the order of the forward pass.
    pub layers: Vec<Layer>,
}

/// Why there is no model.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModelError {
    /// None of that name.
    #[error("expected a model ({known}), found \"{found}\"; name one of them")]
    Unknown {
        /// All that there are.
        known: String,
        /// What was given.
        found: String,
    },
    /// Its text is wrong.
    #[error("{place}: {error}")]
    Wrong {
        /// The file.
        place: String,
        /// What was expected and found.
        error: String,
    },
}

impl Model {
    /// The model of that name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Self, ModelError> {
        let file = FILES.get_file(format!("{name}.toml")).and_then(include_dir::File::contents_utf8);
        let text =
            file.ok_or_else(|| ModelError::Unknown { known: Self::names().join(", "), found: name.into() })?;
        Self::parse(&format!("models/{name}.toml"), text)
    }

    /// The names of all models.
    pub fn names() -> Vec<String> {
        let stem =
            |file: &include_dir::File<'_>| file.path().with_extension("").to_string_lossy().into_owned();
        let mut names: Vec<_> = FILES.files().map(stem).collect();
        names.sort();
        names
    }

    /// Reads one.
    ///
    /// # Errors
    /// If a key is unknown or missing, or there is nothing to train.
    pub fn parse(place: &str, text: &str) -> Result<Self, ModelError> {
        let wrong = |error: String| ModelError::Wrong { place: place.into(), error };
        let model: Self =
            toml::from_str(text).map_err(|error| wrong(error.to_string().trim().replace('\n', " ")))?;
        if model.parameters() == 0 || model.batch == 0 {
            let found = format!("{} and {}", model.parameters(), model.batch);
            return Err(wrong(format!(
                "expected parameters and a `batch` of one or more, found {found}; add a layer that has some"
            )));
        }
        Ok(model)
    }

    /// Weights, biases, scales and shifts of all layers.
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(Layer::parameters).sum()
    }

    /// Bytes of all gradients.
    pub fn gradients(&self) -> ByteCount {
        self.layers.iter().map(Layer::gradient).sum()
    }

    /// Operations of the forward pass for a sample as its sums are written down; a multiplication and an addition are two.
    pub fn operations(&self) -> u64 {
        self.layers.iter().map(Layer::operations).sum()
    }
}
