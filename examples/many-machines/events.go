//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nearcall/nearcall/tests/machines/network"
)

// An event is one line of the file of events: what is to be done, separated by semicolons.
type event struct {
	at   time.Duration // since the callers began
	text string
	from time.Time // when it was done
}

func readEvents(path string) (events []event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at, text, _ := strings.Cut(line, " ")
		seconds, err := strconv.ParseFloat(at, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: a line begins with seconds: %q", path, line)
		}
		events = append(events, event{at: time.Duration(seconds * float64(time.Second)), text: strings.TrimSpace(text)})
	}
	if len(events) == 0 || events[len(events)-1].text != "end" {
		return nil, fmt.Errorf("%s: the last event must be end", path)
	}
	return events, lines.Err()
}

// do does what an event says.
func (s *scene) do(e event) error {
	for action := range strings.SplitSeq(e.text, ";") {
		if err := s.act(append(strings.Fields(action), "", "", "", "")); err != nil {
			return fmt.Errorf("%s: %w", action, err)
		}
	}
	return nil
}

func (s *scene) act(words []string) error {
	switch words[0] {
	case "nothing", "end":
		return nil
	case "roll":
		return s.roll()
	}
	if signal, known := signals[words[0]]; known {
		return s.signal(signal, words[1:])
	}
	host, found := s.hosts[words[1]]
	if !found {
		return fmt.Errorf("there is no host %q", words[1])
	}
	return harm(host, words)
}

// signal sends a signal to the server of a host, or to its gateway.
func (s *scene) signal(signal syscall.Signal, words []string) error {
	services, name := s.servers, words[0]
	if name == "gateway" {
		services, name = s.gateways, words[1]
	}
	service, found := services[name]
	if !found {
		return fmt.Errorf("nothing of the kind runs on host %q", name)
	}
	return service.signal(signal)
}

// signals are what programs are sent.
var signals = map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP, "continue": syscall.SIGCONT}

// harm does something to the link of a host, or takes it back.
func harm(host *network.Host, words []string) error {
	switch words[0] {
	case "delay":
		least, failed := time.ParseDuration(words[2])
		jitter, failedToo := time.ParseDuration(words[3])
		if err := errors.Join(failed, failedToo); err != nil {
			return err
		}
		return host.Delay(least, jitter)
	case "lose":
		percent, err := strconv.ParseFloat(strings.TrimSuffix(words[2], "%"), 64)
		if err != nil {
			return err
		}
		return host.Lose(percent / 100)
	case "rate":
		kilobits, err := strconv.Atoi(strings.TrimSuffix(words[2], "kbit"))
		if err != nil {
			return err
		}
		return host.Rate(kilobits * 1000)
	case "hold":
		return host.Hold()
	case "silence":
		return host.Silence()
	case "cut":
		return host.Cut()
	case "heal":
		return host.Heal()
	}
	return fmt.Errorf("nobody knows how to %s", words[0])
}

// roll replaces one program after the other, as for a new version: on each host the server, and
// then the gateway.
func (s *scene) roll() error {
	for _, name := range []string{"b", "c", "a"} {
		for _, services := range []map[string]*service{s.servers, s.gateways} {
			if service, found := services[name]; found {
				if err := service.replace(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
