//! How segments move, as faces choose and watch it; and single objects that are encoded without a volume.

pub use weft_transfer::{DiskRoom, Profile, Settings, objects, trace};
