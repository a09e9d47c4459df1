package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// testee is a program around one client library. It reads a command a line and
// answers each by a line; conformance/README.md has the protocol.
type testee struct {
	name    string
	process *exec.Cmd
	in      io.WriteCloser
	lines   chan string
}

type answer struct {
	members object
	err     error
}

func startTestee(name, command string, oldKernel bool) (*testee, error) {
	words := strings.Fields(command)
	process := exec.Command(words[0], words[1:]...)
	process.Stderr = os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := start(process, oldKernel); err != nil {
		return nil, fmt.Errorf("testee %s: %w", name, err)
	}
	t := &testee{name: name, process: process, in: in, lines: make(chan string, 1)}
	go t.readLines(out)
	return t, nil
}

func (t *testee) readLines(out io.Reader) {
	defer close(t.lines)
	reader := bufio.NewReaderSize(out, 1<<20)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		t.lines <- line
	}
}

// begin sends a command; wait gives its answer.
func (t *testee) begin(command object) chan answer {
	pending := make(chan answer, 1)
	line, err := json.Marshal(command)
	if err == nil {
		_, err = t.in.Write(append(line, '\n'))
	}
	if err != nil {
		pending <- answer{nil, fmt.Errorf("testee %s: %w", t.name, err)}
		return pending
	}
	go func() {
		line, alive := <-t.lines
		if !alive {
			pending <- answer{nil, fmt.Errorf("testee %s ended during %s", t.name, show(command["do"]))}
			return
		}
		value, err := decodeJSON([]byte(line))
		members, _ := value.(object)
		if err == nil && members == nil {
			err = fmt.Errorf("testee %s answered %q", t.name, line)
		}
		pending <- answer{members, err}
	}()
	return pending
}

// wait returns an answer, or an error that ends the testee's use.
func (t *testee) wait(pending chan answer, bound time.Duration) (object, error) {
	select {
	case a := <-pending:
		return a.members, a.err
	case <-time.After(bound):
		return nil, fmt.Errorf("testee %s does not answer within %s", t.name, bound)
	}
}

func (t *testee) do(command object, bound time.Duration) (object, error) {
	return t.wait(t.begin(command), bound)
}

// stop ends the process: by the end of its input, or by force.
func (t *testee) stop() error {
	_ = t.in.Close()
	done := make(chan error, 1)
	go func() { done <- t.process.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(patience):
		_ = t.process.Process.Kill()
		<-done
		return fmt.Errorf("testee %s did not end when its input did", t.name)
	}
}
