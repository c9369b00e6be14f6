package api

import (
	"context"
	"net/http"

	"steward/internal/monitor"
)

type statView struct {
	X int64   `json:"x" doc:"When the five minutes begin, in milliseconds since 1970."`
	Y float64 `json:"y" doc:"The average over what was measured in them."`
}

// statsView has no point where nothing is known: gaps stay gaps.
type statsView struct {
	CPU    []statView `json:"cpu" nullable:"false" doc:"Cores that were busy (user, nice, system and interrupts), summed over the machines: 1.5 is one and a half cores."`
	Disk   []statView `json:"disk" nullable:"false" doc:"Bytes read from and written to disks a second, summed over the machines."`
	NetIn  []statView `json:"net_in" nullable:"false" doc:"Bits received a second, summed over the machines; loops, bridges and the like aren't counted."`
	NetOut []statView `json:"net_out" nullable:"false" doc:"Bits sent a second, summed over the machines."`
	Swap   []statView `json:"swap" nullable:"false" doc:"Bytes of swap in use, summed over the machines."`
}

type statsAnswer struct {
	Data statsView `json:"data" doc:"Points of five minutes over the last 24 hours. Each is the sum over those machines that have data for it; a point that no machine has is left out."`
}

func showStats(points []monitor.Point) statsAnswer {
	show := func(metric func(monitor.Point) *float64) []statView {
		shown := []statView{}
		for _, p := range points {
			if y := metric(p); y != nil {
				shown = append(shown, statView{p.At.UnixMilli(), *y})
			}
		}
		return shown
	}
	return statsAnswer{statsView{
		CPU:    show(func(p monitor.Point) *float64 { return p.CPU }),
		Disk:   show(func(p monitor.Point) *float64 { return p.Disk }),
		NetIn:  show(func(p monitor.Point) *float64 { return p.NetIn }),
		NetOut: show(func(p monitor.Point) *float64 { return p.NetOut }),
		Swap:   show(func(p monitor.Point) *float64 { return p.Swap }),
	}}
}

func (a *API) registerStats() {
	register(a, endpoint{method: http.MethodGet, path: "/v4/managed/stats", id: "viewStats", summary: "View the load of all machines together", tag: "Managed compute instances", scope: readAccount},
		func(ctx context.Context, c call[none, none]) (statsAnswer, error) {
			points, err := a.Control.Machines.Stats(ctx, c.Principal)
			return showStats(points), err
		})
}
