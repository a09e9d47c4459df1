package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// exitInterrupted is what shells say of a program that SIGINT ended.
const exitInterrupted = 130

// wait says that it is there, and waits until its caller ends it.
func wait(ctx context.Context, r *run) int {
	ended := ctx.Done() // from here on signals end the context, not the process
	r.printf("waiting %d\n", os.Getpid())
	<-ended
	fmt.Fprintln(r.Stderr, "ended:", context.Cause(ctx))
	return exitInterrupted
}

// linger says that it is there, waits for a file, and tells what it has then.
func linger(ctx context.Context, r *run) int {
	r.printf("waiting %d\n", os.Getpid())
	if err := r.waitForFile(ctx, r.arguments[1]); err != nil {
		return r.broken(err.Error())
	}
	return r.tell("")
}

// size prints the size of the terminal, again whenever it changes.
func size(ctx context.Context, r *run) int {
	signals := r.Signals()
	r.printSize(ctx, "size")
	for {
		select {
		case <-ctx.Done():
			return exitInterrupted
		case s := <-signals:
			if s == syscall.SIGWINCH {
				r.printSize(ctx, "resized")
			}
		}
	}
}

func (r *run) printSize(ctx context.Context, word string) {
	command := r.Command(ctx, "stty", "size")
	command.Stdout = nil
	text, err := command.Output()
	r.printf("%s %s %v\n", word, strings.TrimSpace(string(text)), err)
}

// line reads a line as the terminal edits it.
func line(_ context.Context, r *run) int {
	r.printf("line of %d> ", os.Getpid())
	text, err := bufio.NewReader(r.input()).ReadString('\n')
	if err != nil {
		return r.broken(err.Error())
	}
	return r.printf("got [%s]\n", strings.TrimSpace(text))
}

// raw changes the terminal's modes and waits.
func raw(ctx context.Context, r *run) int {
	if err := r.Command(ctx, "stty", "raw", "-echo").Run(); err != nil {
		return r.broken(err.Error())
	}
	r.printf("raw %d\r\n", os.Getpid())
	<-ctx.Done()
	return exitInterrupted
}

// pager shows a file with a child.
func pager(ctx context.Context, r *run) int {
	if err := r.Command(ctx, r.arguments[0], r.arguments[1:]...).Run(); err != nil {
		return r.broken(err.Error())
	}
	return r.printf("after the pager\n")
}

// execute runs a program on the caller's side.
func execute(ctx context.Context, r *run) int {
	code, err := r.Execute(ctx, r.arguments...)
	if err != nil {
		return r.broken(err.Error())
	}
	return r.printf("executed: %d\n", code)
}
