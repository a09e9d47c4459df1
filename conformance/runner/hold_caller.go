package main

import (
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// callerStage is a testee and the socket where the runner plays its server.
type callerStage struct {
	testee      *testee
	listener    *net.UnixListener
	descriptors int
}

func (r *runner) startCallerStage(name, command string, oldKernel bool) (*callerStage, error) {
	path := filepath.Join(r.folder, name+".sock")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	t, err := startTestee(name, command, oldKernel)
	if err != nil {
		return nil, err
	}
	st := &callerStage{testee: t, listener: listener}
	return st, r.measureCaller(st)
}

// measureCaller plays one good call, so that the baseline has what is made once.
func (r *runner) measureCaller(st *callerStage) error {
	well := trial{vector: &vector{Steps: []object{{"served_call": object{}}}}}
	if err := r.playCaller(st, well); err != nil {
		return fmt.Errorf("testee %s: a good call fails: %w", st.testee.name, err)
	}
	var err error
	st.descriptors, err = descriptors(st.testee.process.Process.Pid)
	return err
}

// playCaller connects the testee, plays the steps, and closes it again.
func (r *runner) playCaller(st *callerStage, t trial) error {
	s := newSession(r.spec, t)
	s.listener, s.testee = st.listener, st.testee
	connect := object{"do": "connect", "address": "unix:" + st.listener.Addr().String(), "attempts_max": 1}
	for name, value := range t.Connect {
		connect[name] = value
	}
	if err := st.expectOK(connect); err != nil {
		return err
	}
	err := s.play(t.Steps)
	if s.pending != nil {
		_, _ = st.testee.wait(s.pending, 2*patience)
	}
	if closed := st.expectOK(object{"do": "close"}); err == nil {
		err = closed
	}
	st.dropWaiting()
	return err
}

func (st *callerStage) expectOK(command object) error {
	got, err := st.testee.do(command, patience)
	if err == nil && got["ok"] != true {
		err = fmt.Errorf("%s: %s", show(command), received(got))
	}
	return err
}

// dropWaiting empties the backlog: what a failed trial left must not be taken
// for the next one's connection.
func (st *callerStage) dropWaiting() {
	for {
		if err := st.listener.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
			return
		}
		conn, err := st.listener.Accept()
		if err != nil {
			return
		}
		_ = conn.Close()
	}
}

// settled makes sure that the testee lives, can call, and holds no descriptor
// more than before.
func (r *runner) callerSettled(st *callerStage) error {
	well := trial{vector: &vector{Steps: []object{{"served_call": object{}}}}}
	if err := r.playCaller(st, well); err != nil {
		return fmt.Errorf("the caller is of no more use: %w", err)
	}
	return waitFor(settleBound, func() (bool, error) {
		open, err := descriptors(st.testee.process.Process.Pid)
		if err != nil || open > st.descriptors {
			return false, fmt.Errorf("the caller holds %d descriptors, %d before (%v)", open, st.descriptors, err)
		}
		return true, nil
	})
}

func (st *callerStage) stop() error {
	err := st.testee.stop()
	_ = st.listener.Close()
	return err
}

// holdCaller tries every vector of side "caller" with one testee.
func (r *runner) holdCaller(name, command string) error {
	trials, known, err := r.trialsOf("caller", name)
	if err != nil {
		return err
	}
	return eachKernel(trials, known, func(trials []trial, known map[string]bool, oldKernel bool) error {
		return r.playCallers(name, command, trials, known, oldKernel)
	})
}

func (r *runner) playCallers(name, command string, trials []trial, known map[string]bool, oldKernel bool) error {
	st, err := r.startCallerStage(name, command, oldKernel)
	if err != nil {
		return err
	}
	for _, t := range trials {
		err := t.try(func() error { return r.playCaller(st, t) })
		after := r.callerSettled(st)
		if err == nil && after != nil {
			err = fmt.Errorf("afterwards: %w", after)
		}
		r.report.add(name, t, err, known[t.name])
		if after != nil {
			_ = st.stop()
			if st, err = r.startCallerStage(name, command, oldKernel); err != nil {
				return err
			}
		}
	}
	return st.stop()
}
