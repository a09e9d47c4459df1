package command

import (
	"fmt"
	"strings"
	"syscall"
)

// An advisedError says of another error what users of the command can do.
type advisedError struct {
	error
	text string
}

// Error implements error.
func (e *advisedError) Error() string { return e.text }

// Unwrap returns the error itself.
func (e *advisedError) Unwrap() error { return e.error }

// gatewayOptions are the options for what errors of the package call by the names of its fields.
var gatewayOptions = strings.NewReplacer(
	"Embedded.TLS with Authorities", "--nats-ca, --nats-cert and --nats-key (ca, cert and key in [engine])",
	"TLS.Certificate and TLS.Key", "--nats-cert and --nats-key",
	"Embedded.Plain", "--plain",
	"Embedded.ClusterListen", "--cluster-listen",
	"Embedded.Listen", "--engine-listen",
	"Config.Host", "--host",
	"option Large", "option --large",
)

// advised names options of the command, and adds what to do about a port that somebody else uses. The
// engine has only words for it.
func advised(err error) error {
	if err == nil {
		return nil
	}
	text := gatewayOptions.Replace(err.Error())
	if strings.Contains(text, syscall.EADDRINUSE.Error()) {
		text = fmt.Sprintf("%s; if that is another NATS server, use it (--nats), or choose other ports (--engine-listen, --cluster-listen)", text)
	}
	return &advisedError{err, text}
}
