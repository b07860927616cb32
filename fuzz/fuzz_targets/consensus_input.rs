#![no_main]

quorate_fuzz::message!(quorate_consensus::Input<quorate_consensus::protocols::chained::message::ChainedMessage>);
