#![no_main]

quorate_fuzz::message!(quorate_consensus::frontier::Frontier);
