#![no_main]

quorate_fuzz::message!(quorate_consensus::recovery::journal::Record);
