package sample

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"steward/internal/monitor"
)

// Bounds of one reading. A node_exporter's text has some 100 KB; one of a machine
// with hundreds of cores and interfaces some MB.
const (
	patience = 10 * time.Second
	maxText  = 8 << 20
	maxLine  = 64 << 10
)

// Exporters reads node_exporters. Their URLs are the operator's: they may be
// anywhere.
type Exporters struct{ http *http.Client }

// NewExporters makes one that opens a connection per reading.
func NewExporters() *Exporters {
	return &Exporters{&http.Client{
		Timeout:   patience,
		Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: patience},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // none of them redirects: another server answers
		},
	}}
}

// Read reads the counters of the machine whose node_exporter has the URL.
func (e *Exporters) Read(ctx context.Context, url string) (monitor.Reading, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return monitor.Reading{}, fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	req.Header.Set("User-Agent", "steward")
	at := time.Now()
	resp, err := e.http.Do(req)
	if err != nil {
		return monitor.Reading{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return monitor.Reading{}, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	r, err := parse(resp.Body)
	if err != nil {
		return r, fmt.Errorf("read the text of %s: %w", url, err)
	}
	r.At = at
	return r, nil
}

// The metrics that are read (node_exporter 1.x).
const (
	cpuSeconds  = "node_cpu_seconds_total"
	diskRead    = "node_disk_read_bytes_total"
	diskWritten = "node_disk_written_bytes_total"
	netReceived = "node_network_receive_bytes_total"
	netSent     = "node_network_transmit_bytes_total"
	swapTotal   = "node_memory_SwapTotal_bytes"
	swapFree    = "node_memory_SwapFree_bytes"
	labelCore   = "cpu"
	labelMode   = "mode"
	labelDevice = "device"
)

var wanted = [][]byte{
	[]byte(cpuSeconds), []byte(diskRead), []byte(diskWritten), []byte(netReceived), []byte(netSent), []byte(swapTotal), []byte(swapFree),
}

// busyModes are the modes of a core in which it works for this machine.
var busyModes = map[string]bool{"user": true, "nice": true, "system": true, "irq": true, "softirq": true}

// parse reads a node_exporter's text; At is left to the caller.
func parse(text io.Reader) (monitor.Reading, error) {
	lines, err := selectLines(text)
	if err != nil {
		return monitor.Reading{}, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(lines))
	if err != nil {
		return monitor.Reading{}, err
	}
	if len(families) == 0 {
		return monitor.Reading{}, errors.New("it has none of a node_exporter's metrics")
	}
	r := monitor.Reading{
		Busy: busy(families[cpuSeconds]), Disk: disks(families),
		In: interfaces(families[netReceived]), Out: interfaces(families[netSent]),
	}
	if total, free := gauge(families[swapTotal]), gauge(families[swapFree]); total != nil && free != nil && *free <= *total {
		r.Swap = new(*total - *free)
	}
	return r, nil
}

// selectLines are the samples of the wanted metrics: a few of thousands, and all
// that is kept of the text.
func selectLines(text io.Reader) ([]byte, error) {
	var kept bytes.Buffer
	limited := &io.LimitedReader{R: text, N: maxText + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		for _, name := range wanted {
			if rest, ok := bytes.CutPrefix(lines.Bytes(), name); ok && len(rest) > 0 && (rest[0] == '{' || rest[0] == ' ') {
				kept.Write(lines.Bytes())
				kept.WriteByte('\n')
				break
			}
		}
	}
	switch {
	case errors.Is(lines.Err(), bufio.ErrTooLong):
		return nil, fmt.Errorf("a line has more than %d bytes", maxLine)
	case lines.Err() != nil:
		return nil, lines.Err()
	case limited.N == 0:
		return nil, fmt.Errorf("it has more than %d bytes", maxText)
	}
	return kept.Bytes(), nil
}

// maxCount is far beyond what any machine counts: an exabyte.
const maxCount = 1e18

// value is a sample's, and false for what is no count of anything.
func value(m *dto.Metric) (float64, bool) {
	v := m.GetUntyped().GetValue() // the lines that give types aren't kept
	return v, v >= 0 && v <= maxCount
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// busy is each core's time in the modes in which it works.
func busy(f *dto.MetricFamily) monitor.Counters {
	if f == nil {
		return nil
	}
	cores := monitor.Counters{}
	for _, m := range f.GetMetric() {
		if v, ok := value(m); ok && busyModes[label(m, labelMode)] {
			cores[label(m, labelCore)] += v
		}
	}
	return cores
}

// disks are what was read from and written to those that count.
func disks(families map[string]*dto.MetricFamily) monitor.Counters {
	if families[diskRead] == nil || families[diskWritten] == nil {
		return nil
	}
	all := monitor.Counters{}
	for _, name := range []string{diskRead, diskWritten} {
		for _, m := range families[name].GetMetric() {
			if v, ok := value(m); ok {
				all[label(m, labelDevice)] += v
			}
		}
	}
	counted := monitor.Counters{}
	for device, v := range all {
		if countsAsDisk(device, all) {
			counted[device] = v
		}
	}
	return counted
}

// interfaces are one direction of the network interfaces that count.
func interfaces(f *dto.MetricFamily) monitor.Counters {
	if f == nil {
		return nil
	}
	counted := monitor.Counters{}
	for _, m := range f.GetMetric() {
		if v, ok := value(m); ok && countsAsInterface(label(m, labelDevice)) {
			counted[label(m, labelDevice)] = v
		}
	}
	return counted
}

// gauge is a metric without labels; nil when it isn't there.
func gauge(f *dto.MetricFamily) *float64 {
	for _, m := range f.GetMetric() {
		if v, ok := value(m); ok {
			return &v
		}
	}
	return nil
}
