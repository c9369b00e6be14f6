package alert

import (
	"math"
	"time"

	"steward/internal/measure"
)

const (
	// forecastOver is how long it is looked back for a forecast, forecastLate the part of it that has to agree: a disk
	// that took much in at once and is still since then isn't filling.
	forecastOver = 24 * time.Hour
	forecastLate = 6 * time.Hour
	// leastSlope is what counts as standing still, in percent a day.
	leastSlope = 0.1
)

// ForecastRange is of which time the usage has to be known for a forecast at a moment.
func ForecastRange(now time.Time) measure.Range {
	const step = 5 * time.Minute
	to := measure.Floor(now, step)
	return measure.Range{From: to.Add(-forecastOver), To: to, Step: step}
}

// FullIn is in how many seconds usage, in percent, comes to 100 if it goes on as in its points, by least squares: NaN
// when too few are known, infinite when it doesn't rise.
func FullIn(points []measure.Point, step time.Duration) float64 {
	late := min(len(points), int(forecastLate/step))
	slope, now, ok := line(points, step)
	lately, _, fresh := line(points[len(points)-late:], step)
	if !ok || !fresh {
		return math.NaN()
	}
	slope = min(slope, lately)
	if slope < leastSlope/(24*time.Hour).Seconds() {
		return math.Inf(1)
	}
	return max(0, (100-now)/slope)
}

// line is the slope, by second, of the line through the points and where it ends; ok when at least the half of six hours is known,
// at the beginning and at the end of the points that are.
func line(points []measure.Point, step time.Duration) (slope, end float64, ok bool) {
	var n, sx, sy, sxx, sxy float64
	for i, p := range points {
		if !p.Known() {
			continue
		}
		x := float64(i) * step.Seconds()
		n++
		sx, sy, sxx, sxy = sx+x, sy+p.Mean, sxx+x*x, sxy+x*p.Mean
	}
	if n < forecastLate.Seconds()/step.Seconds()/2 {
		return 0, 0, false
	}
	width := n*sxx - sx*sx
	if width == 0 {
		return 0, 0, false
	}
	slope = (n*sxy - sx*sy) / width
	return slope, (sy-slope*sx)/n + slope*float64(len(points))*step.Seconds(), true
}
