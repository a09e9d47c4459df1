package gateway

// A Status is what a gateway knows at a moment. Its JSON is what the function StatusFunction of a
// gateway returns.
type Status struct {
	Gateway  string `json:"gateway"`
	Instance string `json:"instance"`
	Host     string `json:"host"`
	Zone     string `json:"zone,omitempty"`
	UptimeMs int64  `json:"uptime_ms"`
	// Engine says how the gateway is connected to its engine.
	Engine EngineStatus `json:"engine"`
	// Streams is the number of connections over the engine, in both directions.
	Streams int `json:"streams"`
	// Exports are the servers of this machine, and Members what other gateways have announced.
	Exports []ExportStatus `json:"exports"`
	Members []MemberStatus `json:"members"`
	// Functions are those that local callers can call.
	Functions []FunctionStatus `json:"functions"`
}

// An EngineStatus says how a gateway is connected to its engine.
type EngineStatus struct {
	Connected bool `json:"connected"`
	// URL is that of the server in use, or "".
	URL string `json:"url,omitempty"`
	// Error is why it is not connected, or why the connection is of no use, or "".
	Error string `json:"error,omitempty"`
	// ReconnectsTotal counts how often the engine was connected to anew.
	ReconnectsTotal uint64 `json:"reconnects_total"`
	// Trouble is what has failed lately between the gateway's own engine and others, or "".
	Trouble  string `json:"trouble,omitempty"`
	Embedded bool   `json:"embedded"`
}

// An ExportStatus is what is known of a server of this machine.
type ExportStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// State is "up", "draining" or "down".
	State     string `json:"state"`
	Schema    string `json:"schema,omitempty"`
	Functions int    `json:"functions"`
	// Error is why the server is not there, or "".
	Error string `json:"error,omitempty"`
	// Streams is the number of connections of other machines to this server at present, and
	// StreamsTotal of all that there were.
	Streams      int    `json:"streams"`
	StreamsTotal uint64 `json:"streams_total"`
}

// A MemberStatus is what another gateway has announced.
type MemberStatus struct {
	Gateway  string         `json:"gateway"`
	Instance string         `json:"instance"`
	Host     string         `json:"host"`
	Zone     string         `json:"zone,omitempty"`
	State    string         `json:"state"`
	HeardMs  int64          `json:"heard_ms"`
	Servers  []ServerStatus `json:"servers"`
}

// A ServerStatus is a server that another gateway has announced.
type ServerStatus struct {
	Name     string `json:"name"`
	Instance string `json:"instance"`
	State    string `json:"state"`
	Schema   string `json:"schema"`
	Direct   string `json:"direct,omitempty"`
}

// A FunctionStatus says where calls of a function go.
type FunctionStatus struct {
	Name   string        `json:"name"`
	Places []PlaceStatus `json:"places"`
}

// A PlaceStatus is a server that a function can be called at.
type PlaceStatus struct {
	// Server and Gateway name it; Distance is "local", "host", "zone" or "far".
	Server   string `json:"server"`
	Gateway  string `json:"gateway"`
	Distance string `json:"distance"`
	// State is "ready", "failed", "silent" or "full".
	State string `json:"state"`
	// Direct is the address at which the server is called without the engine, or "".
	Direct string `json:"direct,omitempty"`
	// CallsTotal counts the calls that went there, and FailuresTotal those after which the call
	// went elsewhere, or would have.
	CallsTotal    uint64 `json:"calls_total"`
	FailuresTotal uint64 `json:"failures_total"`
}

// StatusFunction is the name of a function that a gateway which listens serves itself. It returns
// the gateway's Status in JSON.
const StatusFunction = "gateway.status"

// Status returns what the gateway knows at present. Before Run it is nearly nothing.
func (g *Gateway) Status() Status {
	s := Status{Gateway: g.config.Name, Host: g.config.Host, Zone: g.labels().zone, Exports: []ExportStatus{}, Members: []MemberStatus{}, Functions: []FunctionStatus{}}
	if !g.ready.Load() {
		return s
	}
	s.Instance, s.UptimeMs = g.hub.Instance(), int64(g.clock.Ms()-g.startedMs)
	s.Engine, s.Streams = g.link.status(), g.hub.Streams()
	for _, e := range g.exported() {
		s.Exports = append(s.Exports, e.status())
	}
	s.Members, s.Functions = g.catalogue.status(), g.importing.status()
	return s
}

// status returns what is known of the server.
func (e *exported) status() ExportStatus {
	functions := e.functions()
	e.mu.Lock()
	defer e.mu.Unlock()
	s := ExportStatus{Name: e.config.Name, Address: e.config.Address, State: string(e.state), Functions: len(functions),
		Streams: int(e.streams.Load()), StreamsTotal: uint64(e.streamsTotal.Load())}
	if e.offered != nil {
		s.Schema = e.offered.schema
	}
	if e.why != nil {
		s.Error = e.why.Error()
	}
	return s
}
