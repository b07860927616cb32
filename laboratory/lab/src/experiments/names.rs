//! Enumerations of the values in experiment files.

use quorate_types::choice;

choice!(
    /// System that runs a cell.
    Instrument, "instrument",
    /// Replicas as threads or processes on this machine.
    Real = "real",
    /// Replicas in network namespaces behind emulated links.
    Emulated = "emulated",
    /// Replicas and clients on other machines.
    Deployed = "deployed",
    /// Replicas in virtual time.
    Simulated = "simulated",
    /// Generated scenarios with twins and partitions, and bugs put back that they have to find.
    Scenarios = "scenarios",
    /// Formulas. Their figures are exact: one row has an interval of width zero.
    Analytical = "analytical",
);

impl Instrument {
    /// Returns whether one run is exact, so that claims need no intervals. Formulas are, and so are counts over
    /// scenarios: one violation is enough to refute a claim that there are none.
    pub fn is_exact(self) -> bool {
        matches!(self, Instrument::Analytical | Instrument::Scenarios)
    }
}

choice!(
    /// How much of an experiment is run.
    Profile, "profile",
    /// Two cores, about a minute.
    Quick = "quick",
    /// The parameters of the paper.
    Full = "full",
);

choice!(
    /// Which latencies of a run count. This concerns single requests; repetitions are never dropped.
    #[derive(Default)]
    Outliers, "outlier policy",
    /// All.
    #[default]
    None = "none",
    /// Those within [Q1 - 1.5 IQR, Q3 + 1.5 IQR], as in the transports paper, section 7.1.
    Iqr = "iqr",
);

choice!(
    PlotKind, "kind of plot",
    /// One figure over another, point by point along an axis: throughput and latency under growing load.
    Curve = "curve",
    Line = "line",
    /// Box plot of the repetitions, or of the samples where rows have them.
    Box = "box",
    Bars = "bars",
    /// Bars made of several figures.
    Stacked = "stacked",
    /// A figure by two axes.
    Heat = "heat",
    /// One mark for each sampled request.
    Scatter = "scatter",
    /// A series per second of the run.
    Seconds = "seconds",
    /// The stages of a replica's work as parts of the cost of a message, by kind of message and role.
    Stages = "stages",
);

choice!(
    /// Result of judging a claim.
    Verdict, "verdict",
    /// The relation holds for all values within the intervals.
    Holds = "holds",
    /// The relation fails for all values within the intervals.
    Fails = "does not hold",
    /// It holds for some values within the intervals and fails for others.
    Undecided = "undecided",
    /// Rows are missing, cells failed, or the instrument or the profile does not have the cells.
    NotMeasurable = "not measurable here",
);

choice!(
    ClaimKind, "kind of claim",
    /// a < b < c.
    Order = "order",
    /// The figure at one point over the figure at another lies within limits.
    Ratio = "ratio",
    /// The figure rises, falls or stays flat along an axis.
    Trend = "trend",
    /// The figure lies within limits.
    Bound = "bound",
    /// The value of an axis from which on the figure no longer rises lies within limits.
    Saturation = "saturation",
    /// The figure is flat between two values of an axis.
    Plateau = "plateau",
    /// The value of an axis from which on one series is ahead of another lies within limits.
    Crossing = "crossing",
    /// The figure equals another instrument's, within a tolerance.
    Agreement = "agreement",
);

choice!(
    /// Change of a figure along an axis.
    Direction, "direction",
    Rises = "rises",
    Falls = "falls",
    Flat = "flat",
);

choice!(
    /// Reduction of a figure over the values of an axis.
    Take, "way to take a figure over an axis",
    Max = "max",
    Min = "min",
    Mean = "mean",
);
