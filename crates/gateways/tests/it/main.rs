//! The gateways as the project wants them.

mod house;
