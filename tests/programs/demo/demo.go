// Package demo has the functions that `nearcall demo` serves and that the tests
// of every language call. Between them they use every type of the schema and
// end in every way a call can end.
package demo

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/status"
)

const (
	ackermannMMax = 3
	ackermannNMax = 10
	fillBytesMax  = 64 << 20
)

// A Person is greeted.
type Person struct {
	Name string   `nearcall:"name"`
	Age  *int64   `nearcall:"age"`
	Tags []string `nearcall:"tags"`
}

// A Point is moved.
type Point struct {
	X float64 `nearcall:"x"`
	Y float64 `nearcall:"y"`
}

// A Parcel is passed on.
type Parcel struct {
	Label string `nearcall:"label"`
	Data  []byte `nearcall:"data"`
}

// Register registers all functions.
func Register(s *server.Server) {
	registerArithmetic(s)
	registerText(s)
	registerValues(s)
	registerNumbers(s)
	registerEndings(s)
}

func registerArithmetic(s *server.Server) {
	counter := new(atomic.Int64)
	s.Register("one", func() int64 { return 1 }, server.Doc("Returns 1."), server.Idempotent())
	s.Register("ack", ack, server.Doc("Ackermann's function, for m up to 3 and n up to 10."), server.Params("m", "n"), server.Idempotent())
	s.Register("count", func() int64 { return counter.Add(1) }, server.Doc("Adds one to a counter that all callers share, and returns it."))
	s.Register("add", func(a, b float64) float64 { return a + b }, server.Doc("Adds two numbers."), server.Idempotent())
	s.Register("sum", sum, server.Doc("Adds any number of integers."), server.Params("numbers"), server.Idempotent())
	s.Register("divmod", divmod, server.Doc("Divides: returns quotient and remainder."), server.Params("a", "b"), server.Idempotent())
	s.Register("optional_sum", optionalSum, server.Doc("Adds b to a if there is a b."), server.Params("a", "b"), server.Idempotent())
}

func registerText(s *server.Server) {
	s.Register("md5", Digest, server.Doc("The MD5 digest of a text, in hex."), server.Params("text"), server.Idempotent())
	s.Register("upper", strings.ToUpper, server.Doc("The text in upper case."), server.Params("text"), server.Idempotent())
	s.Register("greet", greet, server.Doc("Greets a person."), server.Params("person"), server.Idempotent())
	s.Register("word_count", wordCount, server.Doc("Counts the words of a text."), server.Params("text"), server.Idempotent())
}

func registerValues(s *server.Server) {
	s.Register("echo", func(data []byte) []byte { return data }, server.Doc("Returns the bytes it is given."), server.Params("data"), server.Idempotent())
	s.Register("forward", func(parcel Parcel) Parcel { return parcel }, server.Doc("Returns the parcel it is given."),
		server.Params("parcel"), server.Idempotent(), server.Borrow())
	s.Register("fill", fill, server.Doc("Returns that many bytes 0x2A."), server.Params("bytes_count"), server.Idempotent())
	s.Register("move", move, server.Doc("Moves a point."), server.Params("point", "by"), server.Idempotent())
	s.Register("now", func() time.Time { return time.Now() }, server.Doc("The server's time."), server.Idempotent())
	s.Register("later", func(moment time.Time, by time.Duration) time.Time { return moment.Add(by) },
		server.Doc("A moment, moved by a duration."), server.Params("moment", "by"), server.Idempotent())
	s.Register("identity", func(value any) any { return value }, server.Doc("Returns the value it is given, of any type."), server.Params("value"), server.Idempotent())
	s.Register("kinds", kinds, server.Doc("Returns its arguments, one of each basic type, as a list."),
		server.Params("b", "i8", "i64", "u8", "u64", "f32", "f64", "s", "y"), server.Idempotent())
}

func registerEndings(s *server.Server) {
	s.Register("fail", fail, server.Doc("Always fails with the given code and message."), server.Params("code", "message"))
	s.Register("plain_error", func(message string) error { return errors.New(message) },
		server.Doc("Always fails with an error that has no code."), server.Params("message"))
	s.Register("panic", func(message string) { panic(message) }, server.Doc("Panics; the server survives."), server.Params("message"))
	s.Register("sleep", sleep, server.Doc("Waits; stops waiting when the caller gives up."), server.Params("duration_ms"))
	s.Register("block", func(durationMs int64) int64 {
		time.Sleep(time.Duration(durationMs) * time.Millisecond)
		return durationMs
	}, server.Doc("Waits, whatever the caller does meanwhile."), server.Params("duration_ms"))
}

func ack(ctx context.Context, m, n int64) (int64, error) {
	if m < 0 || n < 0 || m > ackermannMMax || n > ackermannNMax {
		return 0, status.Errorf(status.OutOfRange, "ack(%d, %d): m must be 0 to %d and n 0 to %d", m, n, ackermannMMax, ackermannNMax)
	}
	return Ackermann(m, n), ctx.Err()
}

// Ackermann is the function of that name, for small numbers: it grows like no other.
func Ackermann(m, n int64) int64 {
	switch {
	case m == 0:
		return n + 1
	case n == 0:
		return Ackermann(m-1, 1)
	}
	return Ackermann(m-1, Ackermann(m, n-1))
}

func sum(numbers ...int64) int64 {
	total := int64(0)
	for _, number := range numbers {
		total += number
	}
	return total
}

func divmod(a, b int64) (quotient, remainder int64, err error) {
	if b == 0 {
		return 0, 0, status.Errorf(status.InvalidArgument, "divmod(%d, 0): division by zero", a)
	}
	return a / b, a % b, nil
}

func optionalSum(a int64, b *int64) int64 {
	if b == nil {
		return a
	}
	return a + *b
}

// Digest is the MD5 of a text in hexadecimal.
func Digest(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func greet(person Person) string {
	text := "Hello, " + person.Name
	if person.Age != nil {
		text += fmt.Sprintf(", %d", *person.Age)
	}
	if len(person.Tags) > 0 {
		text += " [" + strings.Join(person.Tags, ",") + "]"
	}
	return text
}

func wordCount(text string) map[string]int64 {
	counts := make(map[string]int64)
	for _, word := range strings.Fields(text) {
		counts[word]++
	}
	return counts
}

func fill(bytesCount int64) ([]byte, error) {
	if bytesCount < 0 || bytesCount > fillBytesMax {
		return nil, status.Errorf(status.OutOfRange, "fill(%d): 0 to %d bytes", bytesCount, fillBytesMax)
	}
	data := make([]byte, bytesCount)
	for i := range data {
		data[i] = 0x2A
	}
	return data, nil
}

func move(point, by Point) Point { return Point{X: point.X + by.X, Y: point.Y + by.Y} }

func kinds(b bool, i8 int8, i64 int64, u8 uint8, u64 uint64, f32 float32, f64 float64, s string, y []byte) []any {
	return []any{b, i8, i64, u8, u64, f32, f64, s, y}
}

func fail(code int64, message string) error {
	return &status.Error{
		Code: status.Code(code), Message: message,
		Details: []status.Detail{{Type: "example.Hint", Value: map[string]any{"hint": "this is what fail is for"}}},
	}
}

func sleep(ctx context.Context, durationMs int64) (int64, error) {
	timer := time.NewTimer(time.Duration(durationMs) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return durationMs, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
