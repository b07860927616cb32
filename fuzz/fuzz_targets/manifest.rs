#![no_main]

quorate_fuzz::message!(quorate_types::Manifest);
