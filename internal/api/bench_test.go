package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkView is one authenticated GET of a database, without the network.
func BenchmarkView(b *testing.B) {
	bench := newBench(b)
	path := fmt.Sprintf("/v4/databases/postgresql/instances/%d", bench.create())
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, http.NoBody)
			req.Header.Set("Authorization", "Bearer "+bench.full)
			w := httptest.NewRecorder()
			bench.api.ServeHTTP(w, req)
			if w.Code != http.StatusOK {
				b.Fatalf("%d %s", w.Code, w.Body)
			}
		}
	})
}
