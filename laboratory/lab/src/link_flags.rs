//! Value parsers of flags that change the links of a simulated or emulated network, or a simulated machine.

/// Maximum bandwidth of a network interface, in Mbit/s.
const MAX_CARD_MBIT_PER_S: u32 = 1_000_000;
/// Maximum delay of a link in milliseconds, as in network files.
const MAX_DELAY_MS: f64 = 3_600_000.0;
/// Maximum processing time of a router per packet, in microseconds.
const MAX_ROUTER_US: f64 = 1e6;
/// Maximum ratio between two machines' CPU times.
const MAX_CPU_FACTOR: f64 = 100.0;

pub(crate) fn parse_loss(text: &str) -> Result<f64, String> {
    let loss = text.parse::<f64>().ok().filter(|loss| (0.0..=1.0).contains(loss));
    loss.ok_or_else(|| "write a fraction from 0 to 1; one percent is 0.01".into())
}

pub(crate) fn parse_delay(text: &str) -> Result<f64, String> {
    let delay = text.parse::<f64>().ok().filter(|delay| (0.0..=MAX_DELAY_MS).contains(delay));
    delay.ok_or_else(|| format!("write milliseconds from 0 to {MAX_DELAY_MS}"))
}

pub(crate) fn parse_nic_rate(text: &str) -> Result<u32, String> {
    let rate = text.parse::<u32>().ok().filter(|rate| *rate <= MAX_CARD_MBIT_PER_S);
    rate.ok_or_else(|| format!("write a whole number from 0 to {MAX_CARD_MBIT_PER_S}"))
}

pub(crate) fn parse_router_us(text: &str) -> Result<f64, String> {
    let time = text.parse::<f64>().ok().filter(|time| (0.0..=MAX_ROUTER_US).contains(time));
    time.ok_or_else(|| format!("write microseconds from 0 to {MAX_ROUTER_US}"))
}

pub(crate) fn parse_cpu_factor(text: &str) -> Result<f64, String> {
    let range = MAX_CPU_FACTOR.recip()..=MAX_CPU_FACTOR;
    let factor = text.parse::<f64>().ok().filter(|factor| range.contains(factor));
    factor.ok_or_else(|| format!("write a number from {} to {MAX_CPU_FACTOR}", MAX_CPU_FACTOR.recip()))
}
