//! Nodes around a node: each adds one thing, and neither the node nor its caller knows of it.
