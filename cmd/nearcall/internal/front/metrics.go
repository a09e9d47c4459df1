package front

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what Prometheus sees.
type metrics struct {
	registry *prometheus.Registry
	accepted *prometheus.CounterVec
	handed   *prometheus.CounterVec
	refused  *prometheus.CounterVec
	returned prometheus.Counter
	answers  [answersCount]prometheus.Counter
	looked   prometheus.Histogram
	gave     prometheus.Histogram
}

const namespace = "nearcall_front"

func newMetrics() *metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
			Buckets: prometheus.ExponentialBuckets(20e-6, 4, 10)})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		accepted: counters("connections_accepted_total", "Connections accepted.", "listener"),
		handed:   counters("connections_handed_total", "Connections that a process of the backend took.", "route", "backend"),
		refused:  counters("handoffs_refused_total", "Handoffs after which the connection was offered to another process.", "backend", "socket", "reason"),
		returned: prometheus.NewCounter(prometheus.CounterOpts{Namespace: namespace, Name: "connections_returned_total",
			Help: "Connections that a process handed back because a request was another's."}),
		looked: seconds("look_seconds", "From accepting a connection to knowing its backend."),
		gave:   seconds("give_seconds", "From knowing the backend to the process having the connection."),
	}
	answered := counters("connections_answered_total", "Connections that no process got, by the status that the client got; none: they were closed.", "status")
	for a := range m.answers {
		m.answers[a] = answered.WithLabelValues(answer(a).label())
	}
	m.registry.MustRegister(m.accepted, m.handed, m.refused, m.returned, m.looked, m.gave, answered,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// watch adds what is asked of the front when somebody looks.
func (m *metrics) watch(f *Front) {
	held := prometheus.GaugeOpts{Namespace: namespace, Name: "connections_held", Help: "Connections that are looked at, wait for a process, or get an answer."}
	m.registry.MustRegister(prometheus.NewGaugeFunc(held, func() float64 { return float64(f.guard.count()) }), &sockets{front: f})
}

func (m *metrics) answered(a answer) { m.answers[a].Inc() }

var (
	upDescription = prometheus.NewDesc(namespace+"_backend_up", "1 while a process listens on the socket and takes connections.",
		[]string{"backend", "socket"}, nil)
	pendingDescription = prometheus.NewDesc(namespace+"_backend_pending", "Connections that the process was offered and has not taken yet.",
		[]string{"backend", "socket"}, nil)
)

// sockets collects the state of backends.
type sockets struct{ front *Front }

// Describe is of prometheus.Collector.
func (s *sockets) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- upDescription
	descriptions <- pendingDescription
}

// Collect is of prometheus.Collector.
func (s *sockets) Collect(found chan<- prometheus.Metric) {
	for _, state := range s.front.backends.States() {
		up := 0.0
		if state.Up {
			up = 1
		}
		found <- prometheus.MustNewConstMetric(upDescription, prometheus.GaugeValue, up, state.Backend, state.Socket)
		found <- prometheus.MustNewConstMetric(pendingDescription, prometheus.GaugeValue, float64(state.Pending), state.Backend, state.Socket)
	}
}

// handler serves /metrics and /healthz.
func (m *metrics) handler(f *Front) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", f.health)
	return mux
}

// health says whether connections are accepted; it lists the backends for a person.
func (f *Front) health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if f.isDraining() {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "draining")
		return
	}
	fmt.Fprintln(w, "ok")
	for _, state := range f.backends.States() {
		word := "down"
		if state.Up {
			word = "up"
		}
		fmt.Fprintf(w, "%s %s %s\n", state.Backend, state.Socket, word)
	}
}
