//! Reads a trace back, for whoever holds one against what was simulated.

use crate::proto::{Trace, TrackDescriptor, kind};
use prost::Message;
use std::collections::BTreeMap;

/// A track and what is on it, in the order of the file. Times are nanoseconds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TrackContents {
    /// Its name.
    pub name: String,
    /// The name of the track that it is below.
    pub parent: Option<String>,
    /// Begin, end and name of each slice. A slice within another ends first.
    pub slices: Vec<(u64, u64, String)>,
    /// When something happened at once, and its name.
    pub instants: Vec<(u64, String)>,
    /// When a counter changed, and its value from then on.
    pub values: Vec<(u64, f64)>,
}

/// Why bytes are not a trace that this crate writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// Not a Perfetto trace.
    Encoding(prost::DecodeError),
    /// An event of a track that was not described before it.
    UnknownTrack,
    /// The end of a slice that has not begun, or a slice without an end.
    Unbalanced(String),
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Encoding(error) => write!(f, "expected a Perfetto trace, found \"{error}\""),
            Self::UnknownTrack => write!(f, "expected events of described tracks, found one of another"),
            Self::Unbalanced(track) => {
                write!(f, "expected slices that begin and end, found one that does not on {track}")
            }
        }
    }
}

impl std::error::Error for ReadError {}

/// All tracks of a trace, in the order in which they are described.
///
/// # Errors
/// If the bytes are no trace, or its events make no sense.
pub fn read(bytes: &[u8]) -> Result<Vec<TrackContents>, ReadError> {
    let trace = Trace::decode(bytes).map_err(ReadError::Encoding)?;
    let (mut tracks, mut places, mut open) = (Vec::new(), BTreeMap::new(), Vec::new());
    for packet in trace.packets {
        if let Some(TrackDescriptor { uuid, name, parent, .. }) = packet.track {
            let parent = parent.and_then(|parent| places.get(&parent)).map(|&place: &usize| {
                let parent: &TrackContents = &tracks[place];
                parent.name.clone()
            });
            places.insert(uuid.unwrap_or_default(), tracks.len());
            tracks.push(TrackContents { name: name.unwrap_or_default(), parent, ..TrackContents::default() });
            open.push(Vec::new());
        }
        let (Some(event), at) = (packet.event, packet.timestamp.unwrap_or_default()) else { continue };
        let place =
            event.track.and_then(|track| places.get(&track)).copied().ok_or(ReadError::UnknownTrack)?;
        let (track, name) = (&mut tracks[place], event.name.unwrap_or_default());
        match event.kind.unwrap_or_default() {
            kind::SLICE_BEGIN => open[place].push((at, name)),
            kind::SLICE_END => {
                let begun = open[place].pop().ok_or_else(|| ReadError::Unbalanced(track.name.clone()))?;
                track.slices.push((begun.0, at, begun.1));
            }
            kind::INSTANT => track.instants.push((at, name)),
            _ => track.values.push((at, event.value.unwrap_or_default())),
        }
    }
    match open.iter().position(|open| !open.is_empty()) {
        Some(place) => Err(ReadError::Unbalanced(tracks[place].name.clone())),
        None => Ok(tracks),
    }
}
