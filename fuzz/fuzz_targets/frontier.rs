#![no_main]

quorate_fuzz::message!(quorate_consensus::recovery::frontier::Frontier);
