package cnpg_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/platform/kubernetes/cnpg"
)

// TestParseLog: records are read, wherever a line was cut in their message, and nothing else is.
func TestParseLog(t *testing.T) {
	t.Parallel()
	const begin = `{"level":"info","ts":"2025-12-09T00:32:20.8Z","logger":"postgres","msg":"record","logging_pod":"db-7-g1-1","record":{"log_time":"2025-12-09 00:32:20.822 UTC","user_name":"app","database_name":"shop","error_severity":"ERROR","message":"`
	message := strings.Repeat(`a\"\\\u001b\nü{`, 20)
	whole := begin + message + `","detail":"more"}}`
	at := time.Date(2025, 12, 9, 0, 32, 20, 822e6, time.UTC)
	said, ok := cnpg.ParseLog([]byte(whole), false)
	if want := (cnpg.LogRecord{At: at, User: "app", Database: "shop", Severity: "ERROR", Message: strings.Repeat("a\"\\\x1b\nü{", 20)}); !ok || said != want {
		t.Errorf("%+v", said)
	}
	for end := len(begin); end < len(whole); end++ {
		part, ok := cnpg.ParseLog([]byte(whole[:end]), true)
		if !ok || part.User != "app" || !strings.HasPrefix(said.Message, strings.TrimRight(part.Message, "\uFFFD")) {
			t.Fatalf("cut at %d: %v %+v", end, ok, part)
		}
	}
	for _, other := range []string{
		"", "no JSON", `{"logger":"postgres","msg":"said before its log began"}`, `{"logger":"instance-manager","msg":"record","record":{"log_time":"2025-12-09 00:32:20.822 UTC","error_severity":"LOG"}}`,
		`{"logger":"postgres","record":{"log_time":"yesterday","error_severity":"LOG","message":"x"}}`, `{"logger":"postgres","record":"text"}`, whole[:len(whole)-1],
	} {
		if said, ok := cnpg.ParseLog([]byte(other), false); ok {
			t.Errorf("%s is read as %+v", other, said)
		}
	}
	if _, ok := cnpg.ParseLog(fmt.Appendf(nil, `{"logger":"postgres","record":{"log_time":"%s`, strings.Repeat("x", 100)), true); ok {
		t.Error("a record without a time")
	}
}
