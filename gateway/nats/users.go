package gateway

import (
	"crypto/rand"
	"crypto/subtle"

	engine "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// ownUser is what a gateway is called at its own engine.
const ownUser = "gateway"

// An ownEngine is the engine that runs in a gateway.
type ownEngine struct {
	*engine.Server
	words *engineLog
	// password is that of ownUser. Nobody else gets to know it.
	password string
}

// engineUsers says what those may do who connect to a gateway's own engine: the gateway itself and
// leaf nodes everything, and programs only what they need in order to call. If programs could listen
// to the subjects of gateways, or publish there, every user of the machine could read the calls of
// all machines, and stand in for any gateway.
type engineUsers struct {
	password string
	programs *engine.Permissions
}

func newEngineUsers(prefix string) *engineUsers {
	return &engineUsers{password: rand.Text(), programs: &engine.Permissions{
		Publish:   &engine.SubjectPermission{Allow: []string{prefix + ".f.>", prefix + ".cancel.*", "$SRV.>"}},
		Subscribe: &engine.SubjectPermission{Allow: []string{nats.InboxPrefix + ">"}},
	}}
}

// Check implements engine.Authentication. Leaf nodes have a port of their own, which is for those
// with certificates.
func (u *engineUsers) Check(c engine.ClientAuthentication) bool {
	if c.Kind() == engine.LEAF {
		return true
	}
	if asked := c.GetOpts(); asked.Username == ownUser {
		return subtle.ConstantTimeCompare([]byte(asked.Password), []byte(u.password)) == 1
	}
	c.RegisterUser(&engine.User{Permissions: u.programs})
	return true
}
