package simulator

import (
	"context"
	"crypto/tls"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"steward/internal/pki"
	"steward/internal/platform/kubernetes/cnpg"
)

// machine has the API server know a machine on which all Pods are, whose kubelet hands out their logs. It ends with the test.
func (op *Operator) machine() error {
	ca, err := pki.NewCA("kubelet", time.Now())
	if err != nil {
		return err
	}
	cert, key, err := ca.Issue(nil, []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, time.Now())
	if err != nil {
		return err
	}
	own, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(op.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", op.containerLog)
	kubelet := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}}, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = kubelet.ServeTLS(listener, "", "") // until it is closed
	}()
	op.node = "machine-of-" + op.o.Namespace
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: op.node}}
	op.t.Cleanup(func() {
		_ = op.o.Client.Delete(context.Background(), node)
		_ = kubelet.Close()
		<-served
	})
	if err := op.o.Client.Create(op.t.Context(), node); err != nil {
		return err
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(listener.Addr().(*net.TCPAddr).Port)
	return op.o.Client.Status().Update(op.t.Context(), node)
}

// Unplug has the machine's kubelet not be found, until it is plugged in again.
func (op *Operator) Unplug(unplugged bool) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.unplugged = unplugged
}

// containerLog answers as a kubelet does.
func (op *Operator) containerLog(w http.ResponseWriter, r *http.Request) {
	op.mu.Lock()
	unplugged := op.unplugged
	dir := filepath.Join(op.dir, filepath.Base(r.PathValue("pod")))
	op.mu.Unlock()
	ask := r.URL.Query()
	name := serverLog
	if ask.Get("previous") == "true" {
		name = formerLog
	}
	lines, err := logLines(filepath.Join(dir, name), r.PathValue("pod"))
	switch {
	case unplugged:
		http.Error(w, "the machine is gone", http.StatusServiceUnavailable)
		return
	case errors.Is(err, fs.ErrNotExist) || r.PathValue("container") != cnpg.Container:
		http.Error(w, "there is no such container", http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if since, err := time.Parse(time.RFC3339, ask.Get("sinceTime")); err == nil {
		for len(lines) > 0 && lines[0].at.Before(since) {
			lines = lines[1:]
		}
	}
	if tail, err := strconv.Atoi(ask.Get("tailLines")); err == nil {
		lines = lines[max(0, len(lines)-tail):]
	}
	for _, l := range lines {
		if _, err := w.Write(l.text); err != nil {
			return // nobody listens any more
		}
	}
}

// Files with a server's log: of its container's life, and of the one before.
const (
	serverLog = "postgres.csv"
	formerLog = serverLog + ".former"
)

// logging are the settings with which the instance manager gets the server's log.
func (s *server) logging() map[string]string {
	return map[string]string{
		"logging_collector": "on", "log_destination": "csvlog", "log_directory": s.dir, "log_filename": strings.TrimSuffix(serverLog, ".csv"),
		"log_rotation_age": "0", "log_rotation_size": "0",
	}
}

// line is one of a Pod's log.
type line struct {
	at   time.Time
	text []byte
}

// logColumns are those of a record, in the server's order.
var logColumns = []string{
	"log_time", "user_name", "database_name", "process_id", "connection_from", "session_id", "session_line_num", "command_tag", "session_start_time",
	"virtual_transaction_id", "transaction_id", "error_severity", "sql_state_code", "message", "detail", "hint", "internal_query", "internal_query_pos",
	"context", "query", "query_pos", "location", "application_name", "backend_type", "leader_pid", "query_id",
}

// logLines are what the instance manager makes of a server's log, beside what it says of itself.
func logLines(path, pod string) ([]line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := []line{{text: fmt.Appendf(nil, `{"level":"info","ts":"2026-11-25T00:00:00Z","logger":"instance-manager","msg":"Starting","logging_pod":%q}`+"\n", pod)}}
	in := csv.NewReader(f)
	for {
		row, err := in.Read()
		if err != nil || len(row) < len(logColumns) {
			return lines, nil // the last one is being written
		}
		at, err := time.Parse("2006-01-02 15:04:05.000 MST", row[0])
		if err != nil {
			return nil, err
		}
		record := make([]string, 0, len(logColumns))
		for i, name := range logColumns {
			if row[i] != "" {
				record = append(record, fmt.Sprintf("%q:%s", name, encoded(row[i])))
			}
		}
		text := fmt.Appendf(nil, `{"level":"info","ts":%q,"logger":"postgres","msg":"record","logging_pod":%q,"record":{%s}}`+"\n", at.Format(time.RFC3339Nano), pod, strings.Join(record, ","))
		lines = append(lines, line{at, text})
	}
}

func encoded(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		return `""` // no text fails
	}
	return string(out)
}

// newLife has a container's log begin anew: in the same Pod the one before is kept.
func (s *server) newLife(samePod bool) {
	now, former := filepath.Join(s.dir, serverLog), filepath.Join(s.dir, formerLog)
	if samePod {
		_ = os.Rename(now, former) // there may be none yet
		return
	}
	_ = os.Remove(now)
	_ = os.Remove(former)
}
