//! What a repair of a rig's volume moved, and how long it took.

use crate::rig::Rig;

pub(super) struct Repaired {
    pub(super) bytes_read: f64,
    pub(super) bytes_written: f64,
    pub(super) seconds: f64,
}

impl Repaired {
    /// Repairs what is lost.
    ///
    /// # Errors
    /// A sentence, where nothing is rebuilt.
    pub(super) fn of(rig: &Rig) -> Result<Repaired, String> {
        let done = rig.weft(["repair", "meta", "--json"])?;
        let said: serde_json::Value = serde_json::from_slice(&done.stdout).map_err(|error| error.to_string())?;
        let bytes = |name: &str| said["report"][name].as_f64().filter(|bytes| *bytes > 0.0);
        match (bytes("bytes_read"), bytes("bytes_written")) {
            (Some(bytes_read), Some(bytes_written)) => {
                Ok(Repaired { bytes_read, bytes_written, seconds: done.seconds })
            }
            _ => Err("the repair rebuilt nothing".to_owned()),
        }
    }
}
