package wire

import "fmt"

// A ProtocolError says which field of a frame or handshake broke the format.
// The connection it came on is closed.
type ProtocolError struct {
	// TooLarge is set when a limit was exceeded, which has a code of its own.
	TooLarge bool
	Text     string
}

// Error returns the text.
func (e *ProtocolError) Error() string { return "nearcall: protocol error: " + e.Text }

func protocolErrorf(format string, args ...any) *ProtocolError {
	return &ProtocolError{Text: fmt.Sprintf(format, args...)}
}

// A Side is one end of a connection.
type Side uint8

// The two ends.
const (
	CallerSide Side = 1 << iota
	ServerSide
)

// String returns the side's name.
func (s Side) String() string {
	if s == ServerSide {
		return "server"
	}
	return "caller"
}

func (s Side) other() Side { return (CallerSide | ServerSide) &^ s }

type fields uint16

const (
	usesFlags fields = 1 << iota
	usesCodec
	usesDescriptors
	usesCallID
	mayUseCallID
	drawsCallID
	usesFunction
	usesDeadline
	usesStatus
	usesExtensions
	usesPayload
)

type rule struct {
	senders      Side
	uses         fields
	feature      Feature
	descriptors  uint8 // that come with every such frame
	payloadMin   int
	payloadMax   int
	payloadLimit string // that payloadMax is, where it is one
}

const unlimited = int(^uint(0) >> 1)

// rules is the table "Frames" of spec/wire-format.md.
var rules = [...]rule{
	Request: {senders: CallerSide, payloadMax: unlimited,
		uses: usesFlags | usesCodec | usesDescriptors | usesCallID | drawsCallID | usesFunction | usesDeadline | usesStatus | usesExtensions | usesPayload},
	Reply: {senders: ServerSide, payloadMax: unlimited,
		uses: usesFlags | usesCodec | usesDescriptors | usesCallID | usesFunction | usesExtensions | usesPayload},
	Error:      {senders: ServerSide, uses: usesCodec | mayUseCallID | usesStatus | usesExtensions | usesPayload, payloadMax: unlimited},
	Cancel:     {senders: CallerSide, uses: usesCallID},
	StreamData: {senders: CallerSide | ServerSide, uses: usesCodec | usesDescriptors | usesCallID | usesPayload, feature: FeatureStreams, payloadMax: unlimited},
	StreamEnd:  {senders: CallerSide | ServerSide, uses: usesCallID, feature: FeatureStreams},
	Credit:     {senders: CallerSide | ServerSide, uses: usesCallID | usesStatus, feature: FeatureStreams},
	Ping:       {senders: CallerSide | ServerSide, uses: usesPayload, payloadMax: PingBytesMax, payloadLimit: "ping_bytes_max"},
	Pong:       {senders: CallerSide | ServerSide, uses: usesPayload, payloadMax: PingBytesMax, payloadLimit: "ping_bytes_max"},
	Resolve: {senders: CallerSide, uses: usesCallID | drawsCallID | usesDeadline | usesPayload,
		payloadMin: 1, payloadMax: FunctionNameBytesMax, payloadLimit: "function_name_bytes_max"},
	Drain: {senders: ServerSide, uses: mayUseCallID | usesPayload, payloadMax: ErrorMessageBytesMax, payloadLimit: "error_message_bytes_max"},
	Wake:  {senders: CallerSide | ServerSide, feature: FeatureSharedMemory},
	Memory: {senders: ServerSide, uses: usesPayload, feature: FeatureSharedMemory, descriptors: MemoryDescriptors,
		payloadMin: memoryOfferBytes, payloadMax: memoryOfferBytes},
	Store: {senders: CallerSide, uses: usesCallID | drawsCallID | usesDeadline | usesPayload, feature: FeatureStores,
		payloadMin: StoreAskBytes, payloadMax: StoreAskBytes},
	Release: {senders: CallerSide, uses: usesPayload, feature: FeatureStores, payloadMin: releaseBytes, payloadMax: releaseBytes},
	Ask: {senders: CallerSide, uses: usesCallID | drawsCallID | usesDeadline | usesPayload, feature: FeatureAsks,
		payloadMin: askBytesMin, payloadMax: askBytesMax, payloadLimit: "asked_calls_max"},
}

// A Parser cuts the bytes that one side sends into frames and refuses what the
// format forbids. Its zero value is not usable; set the exported fields first.
// It is used by one goroutine at a time.
type Parser struct {
	// From is the side whose frames are parsed.
	From Side
	// FrameBytesMax is the largest length accepted.
	FrameBytesMax uint32
	// Features are those accepted in the welcome.
	Features Feature

	lastCallID uint64
}

// Need returns how many bytes the frame at the start of buffer takes in all,
// as far as can be told: at least HeaderBytes. Preconditions: the header, if
// complete, was accepted by Next.
func (p *Parser) Need(buffer []byte) int {
	if len(buffer) < HeaderBytes {
		return HeaderBytes
	}
	header := ParseHeader(buffer)
	return HeaderBytes + int(header.Length)
}

// Next parses the frame at the start of buffer into frame and returns the
// number of bytes it took; 0 means that the frame is not complete. A header is
// checked as soon as it is complete, before anything that it announces.
func (p *Parser) Next(buffer []byte, frame *Frame) (int, error) {
	if len(buffer) < HeaderBytes {
		return 0, nil
	}
	frame.Header = ParseHeader(buffer)
	if !p.isPlain(&frame.Header) {
		if err := p.check(&frame.Header); err != nil {
			return 0, err
		}
	}
	end := HeaderBytes + int(frame.Length)
	if len(buffer) < end {
		return 0, nil
	}
	split := HeaderBytes + int(frame.ExtensionBytes)
	frame.Extensions = buffer[HeaderBytes:split:split]
	frame.Payload = buffer[split:end:end]
	if frame.ExtensionBytes > 0 {
		if err := CheckExtensions(frame.Extensions); err != nil {
			return 0, err
		}
	}
	if rules[frame.Type].uses&drawsCallID != 0 {
		p.lastCallID = frame.CallID
	}
	return end, nil
}

// Skip takes the frame at the start of buffer of which nothing but the header is wanted,
// and returns how many bytes the frame has in all. Preconditions: the header is complete.
func (p *Parser) Skip(buffer []byte, frame *Frame) (int, error) {
	*frame = Frame{Header: ParseHeader(buffer)}
	if err := p.check(&frame.Header); err != nil {
		return 0, err
	}
	if rules[frame.Type].uses&drawsCallID != 0 {
		p.lastCallID = frame.CallID
	}
	return HeaderBytes + int(frame.Length), nil
}

// isPlain reports whether the header is that of a legal call or reply as nearly all of them
// are, without asking its fields for all that the rules say of them.
func (p *Parser) isPlain(h *Header) bool {
	if h.Length > p.FrameBytesMax || uint32(h.Flags)|uint32(h.Descriptors)|h.ExtensionBytes != 0 {
		return false
	}
	if p.From == CallerSide {
		return h.Type == Request && h.CallID > p.lastCallID && (h.Status == 0 || p.Features&FeatureDescriptions != 0)
	}
	return p.From == ServerSide && h.Type == Reply && h.CallID != 0 && h.Deadline|h.Status == 0
}

// check refuses a header that breaks a rule.
func (p *Parser) check(h *Header) error {
	if int(h.Type) >= len(rules) || rules[h.Type].senders == 0 {
		return protocolErrorf("frame type %d is unknown (1 to %d are known)", h.Type, len(rules)-1)
	}
	rule := &rules[h.Type]
	if rule.senders&p.From == 0 {
		return protocolErrorf("a %s does not send %s", p.From, h.Type)
	}
	if rule.feature&^p.Features != 0 {
		return protocolErrorf("%s needs a feature that was not accepted", h.Type)
	}
	if h.Length > p.FrameBytesMax {
		return &ProtocolError{TooLarge: true, Text: fmt.Sprintf("%s of %d bytes (largest frame accepted: %d, limit frame_bytes_max); split the data, or raise the limit by option WithFrameBytesMax of the %s, to at most %d", h.Type, h.Length, p.FrameBytesMax, p.From.other(), FrameBytesMaxCeiling)}
	}
	if err := checkLengths(h, rule); err != nil {
		return err
	}
	if err := p.checkCallID(h, rule); err != nil {
		return err
	}
	return p.checkUnused(h, rule)
}

func checkLengths(h *Header, rule *rule) error {
	if h.ExtensionBytes > h.Length {
		return protocolErrorf("%s with %d extension bytes in a length of %d", h.Type, h.ExtensionBytes, h.Length)
	}
	if h.ExtensionBytes > ExtensionBytesMax {
		return protocolErrorf("%s with %d extension bytes (at most %d, limit extension_bytes_max, which is fixed)", h.Type, h.ExtensionBytes, ExtensionBytesMax)
	}
	payload := int(h.Length - h.ExtensionBytes)
	if payload < rule.payloadMin || payload > rule.payloadMax {
		limit := ""
		if rule.payloadLimit != "" {
			limit = ", limit " + rule.payloadLimit + ", which is fixed"
		}
		return protocolErrorf("%s with a payload of %d bytes (%d to %d%s)", h.Type, payload, rule.payloadMin, rule.payloadMax, limit)
	}
	return nil
}

func (p *Parser) checkCallID(h *Header, rule *rule) error {
	switch {
	case rule.uses&usesCallID != 0 && h.CallID == 0:
		return protocolErrorf("%s with call id 0", h.Type)
	case rule.uses&(usesCallID|mayUseCallID) == 0 && h.CallID != 0:
		return protocolErrorf("%s with call id %d (must be 0)", h.Type, h.CallID)
	case rule.uses&drawsCallID != 0 && h.CallID <= p.lastCallID:
		return protocolErrorf("%s with call id %d (must be above %d)", h.Type, h.CallID, p.lastCallID)
	}
	return nil
}

// bringsStore reports whether the descriptor of a reply can be that of a store.
func (p *Parser) bringsStore(h *Header) bool {
	return h.Type == Reply && p.Features&FeatureStores != 0 && h.Descriptors == StoreDescriptors && h.ExtensionBytes > 0
}

func (p *Parser) checkUnused(h *Header, rule *rule) error {
	unused := ^rule.uses
	switch {
	case h.Flags != 0 && (unused&usesFlags != 0 || h.Flags != FlagStream || p.Features&FeatureStreams == 0):
		return protocolErrorf("%s with flags 0x%02x", h.Type, uint8(h.Flags))
	case h.Codec != 0 && unused&usesCodec != 0:
		return protocolErrorf("%s with codec %d (must be 0)", h.Type, h.Codec)
	case h.Descriptors != rule.descriptors && (unused&usesDescriptors != 0 || p.Features&FeatureDescriptors == 0) && !p.bringsStore(h):
		return protocolErrorf("%s with %d descriptors (%d were agreed to)", h.Type, h.Descriptors, rule.descriptors)
	case h.Descriptors > FileDescriptorsPerFrameMax:
		return protocolErrorf("%s with %d descriptors (at most %d, limit file_descriptors_per_frame_max, which is fixed)", h.Type, h.Descriptors, FileDescriptorsPerFrameMax)
	case h.FunctionID != 0 && unused&usesFunction != 0:
		return protocolErrorf("%s with function id %d (must be 0)", h.Type, h.FunctionID)
	case h.Deadline != 0 && unused&usesDeadline != 0:
		return protocolErrorf("%s with deadline %d (must be 0)", h.Type, h.Deadline)
	case h.Status != 0 && (unused&usesStatus != 0 || h.Type == Request && p.Features&FeatureDescriptions == 0):
		return protocolErrorf("%s with status %d (must be 0)", h.Type, h.Status)
	case h.ExtensionBytes != 0 && unused&usesExtensions != 0:
		return protocolErrorf("%s with %d extension bytes (must be 0)", h.Type, h.ExtensionBytes)
	}
	return nil
}
