#![no_main]

quorate_fuzz::message!(quorate_consensus::Envelope<quorate_consensus::protocols::pbft::message::PbftMessage>);
