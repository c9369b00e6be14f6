package mysql

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"steward/internal/measure"
)

// Families implements engine.Meter.
func (m *meter) Families(ctx context.Context) ([]measure.Family, error) {
	if err := m.connect(ctx); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	var all families
	all.add("mysql_up", "Whether the server answers.", measure.KindGauge, 1)
	variables, err := m.s.rows(ctx, "SHOW GLOBAL VARIABLES")
	if err != nil {
		return nil, fmt.Errorf("read variables: %w", err)
	}
	texts := map[string]string{}
	for _, row := range variables {
		texts[row[0]] = row[1]
		if v, ok := numberOf(row[1]); ok {
			all.add("mysql_global_variables_"+metricName(row[0]), "The server's variable.", measure.KindGauge, v)
		}
	}
	all.add("mysql_version_info", "Version of the server.", measure.KindGauge, 1,
		"innodb_version", texts["innodb_version"], "version", texts["version"], "version_comment", texts["version_comment"])
	status, err := m.s.rows(ctx, "SHOW GLOBAL STATUS")
	if err != nil {
		return nil, fmt.Errorf("read status: %w", err)
	}
	for _, row := range status {
		all.status(row[0], row[1])
	}
	replica, err := m.s.record(ctx, m.f.dialect().status)
	if err != nil {
		return nil, fmt.Errorf("read status of the replica: %w", err)
	}
	all.replica(replica)
	return all.list, nil
}

// families are those that were found, each of a name together.
type families struct {
	list []measure.Family
	at   map[string]int
}

func (f *families) add(name, help string, kind measure.Kind, v float64, labels ...string) {
	if math.IsNaN(v) {
		return
	}
	if f.at == nil {
		f.at = map[string]int{}
	}
	at, there := f.at[name]
	if !there {
		at = len(f.list)
		f.at[name] = at
		f.list = append(f.list, measure.Family{Name: name, Help: help, Kind: kind})
	}
	f.list[at].Samples = append(f.list[at].Samples, measure.Sample{Labels: labels, Value: v})
}

const statusPrefix = "mysql_global_status_"

// grouped are the names of which mysqld_exporter makes labels.
var grouped = regexp.MustCompile(`^(com|handler|connection_errors|innodb_buffer_pool_pages|innodb_rows|performance_schema)_(.*)$`)

// status adds a line of SHOW GLOBAL STATUS as mysqld_exporter shows it.
func (f *families) status(name, text string) {
	v, ok := numberOf(text)
	if !ok {
		return
	}
	name = metricName(name)
	match := grouped.FindStringSubmatch(name)
	if match == nil {
		f.add(statusPrefix+name, "From SHOW GLOBAL STATUS.", measure.KindUntyped, v)
		return
	}
	count := func(family, help, label string) {
		f.add(statusPrefix+family, help, measure.KindCounter, v, label, match[2])
	}
	switch match[1] {
	case "com":
		count("commands_total", "Statements by their kind.", "command")
	case "handler":
		count("handlers_total", "Calls of the storage engines' handlers.", "handler")
	case "connection_errors":
		count("connection_errors_total", "Connections that came to nothing, by why.", "error")
	case "innodb_rows":
		count("innodb_row_ops_total", "Operations on InnoDB's rows.", "operation")
	case "performance_schema":
		count("performance_schema_lost_total", "Instrumentation that didn't fit in.", "instrumentation")
	case "innodb_buffer_pool_pages":
		f.poolPages(match[2], v)
	}
}

func (f *families) poolPages(name string, v float64) {
	switch name {
	case "data", "free", "misc", "old":
		f.add(statusPrefix+"buffer_pool_pages", "Pages of InnoDB's buffer pool.", measure.KindGauge, v, "state", name)
	case "dirty":
		f.add(statusPrefix+"buffer_pool_dirty_pages", "Pages of InnoDB's buffer pool that wait to be written.", measure.KindGauge, v)
	case "total": // the sum of the states
	default:
		f.add(statusPrefix+"buffer_pool_page_changes_total", "What became of pages of InnoDB's buffer pool.", measure.KindCounter, v, "operation", name)
	}
}

// replicaLabels are the columns that mysqld_exporter makes labels of, by the labels' names.
var replicaLabels = [][2]string{
	{"master_host", "Master_Host"}, {"master_uuid", "Master_UUID"}, {"channel_name", "Channel_Name"}, {"connection_name", "Connection_name"},
}

// replica adds mysql_slave_status_…: newer servers call the columns otherwise, dashboards don't.
func (f *families) replica(record map[string]string) {
	old := make(map[string]string, len(record))
	for name, value := range record {
		old[oldWords.Replace(name)] = value
	}
	var labels []string
	for _, l := range replicaLabels {
		labels = append(labels, l[0], old[l[1]])
	}
	names := make([]string, 0, len(old))
	for name := range old {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if v, ok := numberOf(old[name]); ok {
			f.add("mysql_slave_status_"+metricName(name), "From the status of the replica.", measure.KindUntyped, v, labels...)
		}
	}
}

var oldWords = strings.NewReplacer("Source", "Master", "Replica", "Slave")

var notInNames = regexp.MustCompile(`[^a-z0-9_]`)

// metricName is a name as Prometheus takes them.
func metricName(name string) string { return notInNames.ReplaceAllString(strings.ToLower(name), "_") }

// logNumber is that of a log's name, such as binlog.000007.
var logNumber = regexp.MustCompile(`^[A-Za-z_-]+\.([0-9]+)$`)

// numberOf is a value as mysqld_exporter reads it: yes and on are 1, of a log's name its number counts.
func numberOf(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case "yes", "on":
		return 1, true
	case "no", "off", "disabled", "connecting":
		return 0, true
	}
	if match := logNumber.FindStringSubmatch(text); match != nil {
		text = match[1]
	}
	v := float(text)
	return v, !math.IsNaN(v) && !math.IsInf(v, 0)
}
