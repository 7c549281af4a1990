//! Tests HTA's figures of drawn programs.

mod by_hand;
mod details;
mod drawn;
mod odd_times;
mod support;
