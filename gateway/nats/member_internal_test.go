package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nearcall/nearcall/internal/wire"
)

const (
	anInstance = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	anHonest   = `{"v":1,"instance":"` + anInstance + `","gateway":"b","host":"web-2","zone":"z","up_ms":1,"interval_ms":10000,"state":"up",` +
		`"servers":[{"name":"shop","instance":"00000000000000ff","state":"up","schema":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","direct":"tls:b:7000"}],"later":{"a":1}}`
)

func TestParseMember(t *testing.T) {
	d, err := parseMember([]byte(anHonest))
	if err != nil || d.Servers[0].Instance != 255 || d.Servers[0].Direct != "tls:b:7000" || d.Zone != "z" {
		t.Fatalf("%+v, %v", d, err)
	}
	replaced := func(old, new string) string { return strings.Replace(anHonest, old, new, 1) }
	for what, text := range map[string]string{
		"nothing":            ``,
		"no object":          `[]`,
		"version 0":          replaced(`"v":1`, `"v":0`),
		"no instance":        replaced(anInstance, "x"),
		"a wildcard":         replaced(anInstance, anInstance[:25]+"*"),
		"a name in two rows": replaced(`"gateway":"b"`, `"gateway":"b\nc"`),
		"no host":            replaced("web-2", ""),
		"a long zone":        replaced(`"z"`, `"`+strings.Repeat("z", 256)+`"`),
		"a negative time":    replaced(`"up_ms":1`, `"up_ms":-1`),
		"a number":           replaced(`"00000000000000ff"`, `255`),
		"too few digits":     replaced(`00000000000000ff`, `ff`),
		"no hexadecimals":    replaced(`00000000000000ff`, `00000000000000fg`),
		"a server's name":    replaced(`shop`, `sh.op`),
		"no schema":          replaced(`0123456789abcdef0123`, ``),
		"a long address":     replaced(`tls:b:7000`, `tls:`+strings.Repeat("b", directBytesMax)),
		"too long":           replaced(`"a":1`, `"a":"`+strings.Repeat("x", wire.MemberBytesMax)+`"`),
		"a server twice":     replaced(`"servers":[`, `"servers":[{"name":"shop","instance":"00000000000000ff","state":"down"},`),
		"too many servers":   replaced(`"servers":[`, `"servers":[`+manyServers()),
	} {
		if d, err := parseMember([]byte(text)); err == nil {
			t.Errorf("%s is read as %+v", what, d)
		}
	}
}

func manyServers() string {
	var text strings.Builder
	for i := range wire.MemberServersMax {
		fmt.Fprintf(&text, `{"name":"s%d","instance":"00000000000000ff","state":"down"},`, i)
	}
	return text.String()
}

// What a gateway announces is what others read.
func FuzzMember(f *testing.F) {
	f.Add([]byte(anHonest))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseMember(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseMember(again); err != nil && len(again) <= wire.MemberBytesMax {
			t.Errorf("%s is written as %s, which is not read: %v", text, again, err)
		}
	})
}

// Announcements count for three and a half intervals, within limits.
func TestKeptFor(t *testing.T) {
	for interval, want := range map[int64]uint64{0: wire.MemberSilenceMs, 10_000: wire.MemberSilenceMs, 20_000: 70_000, 1 << 60: 1_750_000} {
		if got := keptFor(interval); got != want {
			t.Errorf("an interval of %d ms counts for %d ms, want %d", interval, got, want)
		}
	}
}

func FuzzHello(f *testing.F) {
	hello := wire.Hello{VersionMin: 1, VersionMax: 1, Offered: localFeatures | wire.FeatureAsks, FrameBytesMax: wire.FrameBytesFloor, Software: "x"}
	f.Add(hello.Append(nil))
	f.Fuzz(func(t *testing.T, text []byte) {
		var read, shown wire.Hello
		taken, err := wire.ParseHello(text, &read)
		if taken == 0 || err != nil {
			return
		}
		if _, err := wire.ParseHello(withoutFeatures(text[:taken], read.Offered&^localFeatures), &shown); err != nil || shown.Offered&localFeatures != 0 ||
			shown.Offered|localFeatures != read.Offered|localFeatures || shown.Software != read.Software {
			t.Errorf("%+v is passed on as %+v: %v", read, shown, err)
		}
	})
}

// What an administrator is shown of others has no control sequences in it.
func TestMembersCannotControlTerminals(t *testing.T) {
	const form = `{"v":1,"instance":"NF2WYZLSORUW4ZZAMNUGC4TTMU","gateway":%q,"host":"h","state":"\u001b]0;x","servers":[{"name":"s","instance":"00c54a1f09b377e2","state":"\u009b2J"}]}`
	d, err := parseMember(fmt.Appendf(nil, form, "g"))
	if err != nil || d.State != serverDown || d.Servers[0].State != serverDown {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := parseMember([]byte(strings.Replace(form, "%q", `"\u009b2J"`, 1))); err == nil {
		t.Error("a name with a control sequence is accepted")
	}
}
