package receive

import (
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/nearcall/nearcall/handoff"
)

// setPID is what must happen between fork and exec: only then is the number known
// that the program compares LISTEN_PID with.
const setPID = `export LISTEN_PID=$$; exec "$0" "$@"`

// command makes the command of one connection.
func (r *Receiver) command(conn *handoff.Conn, file *os.File) *exec.Cmd {
	var program *exec.Cmd
	environment := append(inheritedEnvironment(), connectionVariables(conn)...)
	if r.Style == ListenFDs {
		program = exec.Command("/bin/sh", append([]string{"-c", setPID}, r.Program...)...)
		program.ExtraFiles = []*os.File{file}
		environment = append(environment, "LISTEN_FDS=1", "LISTEN_FDNAMES=connection")
	} else {
		program = exec.Command(r.Program[0], r.Program[1:]...)
		program.Stdin, program.Stdout = file, file
	}
	program.Env = environment
	program.Stderr = os.Stderr
	// A Ctrl-C in the terminal is for this process, which lets programs finish.
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return program
}

// inheritedEnvironment leaves out what was meant for this process.
func inheritedEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		switch name {
		case "LISTEN_PID", "LISTEN_PIDFDID", "LISTEN_FDS", "LISTEN_FDNAMES", "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC",
			"REMOTE_ADDR", "REMOTE_PORT", "HANDOFF_NAME", "HANDOFF_MESSAGE":
			return true
		}
		return false
	})
}

// connectionVariables are those that systemd sets for Accept=yes, and what came
// with the connection.
func connectionVariables(conn *handoff.Conn) (variables []string) {
	if host, port, err := net.SplitHostPort(remoteOf(conn)); err == nil {
		variables = append(variables, "REMOTE_ADDR="+host, "REMOTE_PORT="+port)
	}
	meta := conn.Meta()
	for name, value := range map[string]string{"HANDOFF_NAME": meta.Name, "HANDOFF_MESSAGE": string(meta.Message)} {
		if value != "" && !strings.Contains(value, "\x00") {
			variables = append(variables, name+"="+value)
		}
	}
	return variables
}
