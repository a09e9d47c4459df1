package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/nearcall/nearcall/benchmarks/process"
)

// visits counts the requests of each connection.
type visits struct {
	mutex sync.Mutex
	of    map[string]int
}

func (v *visits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mutex.Lock()
	v.of[r.RemoteAddr]++
	v.mutex.Unlock()
	w.Write([]byte("here\n"))
}

// theyVisit tests that callers of the web make as many requests on a connection as their rows
// say, and tell of those alone that are timed.
func theyVisit(t *testing.T, in func(program string) string) {
	for mode, each := range map[string]int{"http": 1, "http-second": 2, "http-kept": -1} {
		t.Run(mode, func(t *testing.T) {
			v := &visits{of: map[string]int{}}
			server := httptest.NewServer(v)
			defer server.Close()
			caller := started(t, in("caller"), mode, "tcp:"+strings.TrimPrefix(server.URL, "http://"), "0")
			r, err := measure([]*process.Process{caller}, clockOf(nil), nil, turn{length: runLength})
			if err != nil {
				t.Fatalf("%v%s", err, caller.Complaints())
			}
			v.mutex.Lock()
			defer v.mutex.Unlock()
			total, last := 0, 0
			for _, count := range v.of {
				total, last = total+count, max(last, count)
			}
			switch {
			case each < 0 && (len(v.of) != 1 || total != int(r.calls)+1):
				t.Errorf("%d calls were %d requests on %d connections", r.calls, total, len(v.of))
			case each > 0 && (last != each || len(v.of) != int(r.calls)+1):
				t.Errorf("%d calls were %d requests on %d connections, at most %d on one", r.calls, total, len(v.of), last)
			}
			if counted := r.callerCPU != nil; counted == (mode == "http-second") {
				t.Errorf("CPU is told: %t", counted)
			}
		})
	}
}

// floorsAnswer tests that the floors answer as a web server does, in one process and in two.
func floorsAnswer(t *testing.T, in func(program string) string) {
	compile(t, in("web_floor"), "callers/web_floor.c")
	for _, way := range []string{"direct", "handed"} {
		t.Run(way, func(t *testing.T) {
			ports, err := freePorts(1)
			check(t, err)
			floor := started(t, in("web_floor"), ports[0], way)
			caller := started(t, in("caller"), "http", "tcp:"+ports[0], "0")
			if r, err := measure([]*process.Process{caller}, clockOf(floor), nil, turn{length: runLength}); err != nil || r.calls == 0 {
				t.Errorf("%d calls: %v%s", r.calls, err, caller.Complaints())
			}
		})
	}
}
