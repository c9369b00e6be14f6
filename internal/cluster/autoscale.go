package cluster

import "cmp"

// Autoscale is when a database moves to the next plan by itself.
type Autoscale struct {
	Enabled bool `json:"enabled"`
	// Percent of the plan's disk are in use then; 0 for the default.
	Percent int `json:"threshold_percent"`
	// Max is the plan beyond which it doesn't grow.
	Max string `json:"max_type,omitempty"`
}

// Bounds of Autoscale.Percent. At 95 % a database becomes read-only; with less than a tenth left a move could come too late.
const (
	LeastAutoscale   = 50
	MostAutoscale    = 90
	defaultAutoscale = 80
)

// OrDefault is with a percentage, also when none was ever asked for.
func (a Autoscale) OrDefault() Autoscale {
	a.Percent = cmp.Or(a.Percent, defaultAutoscale)
	return a
}

// Due reports whether so many bytes are enough for a move away from a plan with such a disk.
func (a Autoscale) Due(used *int64, disk int64) bool {
	return a.Enabled && used != nil && disk > 0 && *used >= disk/100*int64(a.OrDefault().Percent)
}

// AutoscaleChange is what a request asks for of it; nil members stay as they are.
type AutoscaleChange struct {
	Enabled *bool
	Percent *int
	Max     *string
}

// Merge is a with the change.
func (a Autoscale) Merge(change *AutoscaleChange) Autoscale {
	if change == nil {
		return a
	}
	if change.Enabled != nil {
		a.Enabled = *change.Enabled
	}
	if change.Percent != nil {
		a.Percent = *change.Percent
	}
	if change.Max != nil {
		a.Max = *change.Max
	}
	return a
}
