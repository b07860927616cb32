#![no_main]

quorate_fuzz::message!(quorate_consensus::Envelope<quorate_consensus::pbft::message::PbftMessage>);
