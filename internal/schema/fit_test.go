package schema_test

import (
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nearcall/nearcall/internal/schema"
)

type (
	account struct {
		Name  string `json:"name"`
		Cents int64  `json:"cents"`
		Note  *string
	}
	accountToo struct {
		Cents int64  `json:"cents"`
		Name  string `json:"name"`
	}
	accountWrong struct {
		Name  string        `json:"name"`
		Cents time.Duration `json:"cents"`
	}
	accountMore struct {
		Name  string `json:"name"`
		Cents int64  `json:"cents"`
		Owner string
	}
	accountMaybe struct {
		Name  string `json:"name"`
		Cents *int64 `json:"cents"`
		Owner *string
	}
	accountLess struct {
		Name string `json:"name"`
	}
	chain  struct{ Next *chain }
	chain2 struct{ Next *chain2 }
	chain3 struct{ Next *account }
)

// fits has, for a type of the program and one of the function, "a" where a
// parameter takes it and "r" where it holds a result.
var fits = []struct {
	program, function any
	want              string
}{
	{time.Duration(0), int64(0), ""}, {int64(0), time.Duration(0), ""}, {0, time.Duration(0), ""}, {time.Duration(0), 0.5, ""},
	{time.Duration(0), time.Duration(0), "ar"}, {time.Time{}, time.Time{}, "ar"}, {time.Time{}, "", ""}, {"", time.Time{}, ""},
	{"", []byte(nil), ""}, {[]byte(nil), "", ""}, {[]byte(nil), []byte(nil), "ar"}, {true, 0, ""}, {true, true, "ar"},
	{0, int64(0), "ar"}, {int64(0), int32(0), "ar"}, {int32(0), int64(0), "a"}, {uint64(0), int64(0), "a"}, {int64(0), uint64(0), "a"},
	{int64(0), uint32(0), "ar"}, {0, 0.5, "a"}, {0.5, 0, ""}, {0.5, int32(0), "r"}, {0.5, float32(0), "ar"}, {float32(0), 0.5, "a"}, {"", 0, ""},
	{float32(0), int32(0), ""}, {float32(0), int16(0), "r"},
	{new(int64), int64(0), "ar"}, {int64(0), new(int64), "a"}, {new(int64), new(int64), "ar"}, {new(time.Duration), new(int64), ""},
	{[]int64(nil), []int64(nil), "ar"}, {[]int64(nil), new([]int64), "ar"}, {[]time.Duration(nil), []int64(nil), ""}, {[]int64(nil), int64(0), ""}, {int64(0), []int64(nil), ""},
	{map[string]int{}, map[string]int64{}, "ar"}, {map[string]int{}, map[int]int{}, ""}, {map[int]int{}, map[int32]int{}, "ar"}, {map[int32]int{}, map[int]int{}, "a"},
	{map[string]time.Duration{}, map[string]int64{}, ""}, {accountWrong{}, map[string]any{}, ""}, {map[string]int{}, []int(nil), ""},
	{account{}, account{}, "ar"}, {accountToo{}, account{}, "ar"}, {account{}, accountToo{}, "r"}, {accountWrong{}, accountToo{}, ""},
	{accountMore{}, accountToo{}, ""}, {accountMaybe{}, accountToo{}, "r"}, {accountLess{}, account{}, "r"}, {accountMaybe{}, accountMore{}, "ar"},
	{[]accountWrong(nil), []accountToo(nil), ""}, {new(accountToo), accountToo{}, "ar"}, {account{}, "", ""}, {"", account{}, ""},
	{map[string]any{}, account{}, "ar"}, {map[string]int{}, account{}, ""}, {map[int]any{}, account{}, ""}, {accountToo{}, map[string]any{}, "ar"},
	{accountToo{}, map[string]int{}, ""}, {chain{}, chain2{}, "ar"}, {chain{}, chain3{}, "r"},
	{&os.File{}, &os.File{}, "ar"}, {&net.TCPConn{}, &net.TCPConn{}, "ar"}, {&net.TCPConn{}, &os.File{}, "a"}, {&os.File{}, &net.TCPConn{}, "ar"},
}

// served makes a function that takes and returns values of a type.
func served(t *testing.T, of reflect.Type) *schema.Function {
	t.Helper()
	fn := reflect.FuncOf([]reflect.Type{of}, []reflect.Type{of}, false)
	return function(t, "f", reflect.Zero(fn).Interface(), schema.GoOptions{ParamNames: []string{"value"}})
}

func TestFit(t *testing.T) {
	for _, test := range fits {
		program, function := reflect.TypeOf(test.program), reflect.TypeOf(test.function)
		f, got := served(t, function), ""
		argument := f.FitArguments([]reflect.Type{program})
		if argument == nil {
			got += "a"
		} else if !strings.HasPrefix(argument.Error(), "argument 1 (value): ") {
			t.Errorf("%v does not say where", argument)
		}
		result := f.FitResults([]reflect.Type{program})
		if result == nil {
			got += "r"
		} else if !strings.HasPrefix(result.Error(), "result 1: ") {
			t.Errorf("%v does not say where", result)
		}
		if got != test.want {
			t.Errorf("%v where the function has %v: %q, want %q (%v; %v)", program, function, got, test.want, argument, result)
		}
	}
}

func TestFitOfAny(t *testing.T) {
	type holder struct{ Value any }
	dynamic := reflect.TypeFor[any]()
	for _, static := range []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[account](), reflect.TypeFor[*string](), reflect.TypeFor[[]any](), dynamic, reflect.TypeFor[holder]()} {
		for _, pair := range [][2]reflect.Type{{static, dynamic}, {dynamic, static}} {
			f := served(t, pair[1])
			if err := f.FitArguments(pair[:1]); err != nil {
				t.Error(err)
			}
			if err := f.FitResults(pair[:1]); err != nil {
				t.Error(err)
			}
		}
	}
	file := reflect.TypeFor[*os.File]()
	if err := served(t, dynamic).FitArguments([]reflect.Type{file}); err == nil {
		t.Error("a file went where any value is expected, which no file is")
	}
	if err := served(t, file).FitArguments([]reflect.Type{dynamic}); err != nil {
		t.Error(err)
	}
	if err := served(t, file).FitResults([]reflect.Type{dynamic}); err == nil {
		t.Error("a file came as any")
	}
	for _, static := range []reflect.Type{reflect.TypeFor[time.Duration](), reflect.TypeFor[[]time.Duration](), reflect.TypeFor[map[string]accountWrong]()} {
		f := served(t, dynamic)
		if f.FitArguments([]reflect.Type{static}) == nil || f.FitResults([]reflect.Type{static}) == nil {
			t.Errorf("%v fits any, where it would be a number", static)
		}
	}
}

// A number in a value of type any is not the duration that a server has there, nor
// is that server's duration the number that the program knew.
func TestAnyIsNoDuration(t *testing.T) {
	type (
		waits struct {
			Next  *waits
			After *time.Duration
		}
		dynamic struct {
			Next  *dynamic
			After any
		}
	)
	bare := reflect.TypeFor[any]()
	for _, test := range [][2]any{
		{bare, time.Duration(0)}, {bare, new(time.Duration)}, {[]any(nil), []time.Duration(nil)}, {bare, []time.Duration(nil)},
		{map[string]any{}, map[string]time.Duration{}}, {bare, accountWrong{}}, {map[string]any{}, accountWrong{}},
		{[]any(nil), []accountWrong(nil)}, {[]map[string]any(nil), []accountWrong(nil)}, {bare, waits{}}, {dynamic{}, waits{}},
	} {
		program, f := []reflect.Type{reflect.TypeOf(test[0])}, served(t, reflect.TypeOf(test[1]))
		if test[0] == bare {
			program[0] = bare
		}
		for way, err := range map[string]error{"an argument": f.FitArguments(program), "a result": f.FitResults(program)} {
			if err == nil || !strings.Contains(err.Error(), "time.Duration") {
				t.Errorf("%v for %v as %s: %v", program[0], test[1], way, err)
			}
		}
	}
}

func TestFitOfNil(t *testing.T) {
	for of, fits := range map[reflect.Type]bool{
		reflect.TypeFor[*int](): true, reflect.TypeFor[[]int](): true, reflect.TypeFor[map[string]int](): true, reflect.TypeFor[any](): true,
		reflect.TypeFor[int](): false, reflect.TypeFor[string](): false, reflect.TypeFor[account](): false, reflect.TypeFor[[]byte](): false,
	} {
		if err := served(t, of).FitArguments([]reflect.Type{nil}); (err == nil) != fits {
			t.Errorf("nil for %v: %v", of, err)
		}
	}
}

func TestFitSaysWhat(t *testing.T) {
	later := function(t, "later", func(time.Time, time.Duration) time.Time { return time.Time{} }, schema.GoOptions{ParamNames: []string{"moment", "by"}})
	for _, test := range []struct {
		got  error
		want string
	}{
		{later.FitArguments([]reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[int64]()}),
			"argument 2 (by): the program has int64, and the function takes duration"},
		{later.FitArguments([]reflect.Type{reflect.TypeFor[time.Time]()}), "later takes 2 arguments; 1 came, and argument 2 (by) is missing"},
		{later.FitArguments([]reflect.Type{reflect.TypeFor[time.Time](), reflect.TypeFor[chan int]()}),
			"argument 2 (by): type chan int is not supported: it has no meaning in another process"},
		{later.FitResults(nil), "later returns 1 results, and the program takes 0"},
		{later.FitResults([]reflect.Type{reflect.TypeFor[string]()}), "result 1: the program has string, and the function returns time"},
		{served(t, reflect.TypeFor[[]account]()).FitArguments([]reflect.Type{reflect.TypeFor[[]accountMore]()}),
			"argument 1 (value): in the list: the program's accountMore has the field Owner, which the function's account does not have"},
		{served(t, reflect.TypeFor[account]()).FitArguments([]reflect.Type{reflect.TypeFor[accountLess]()}),
			"argument 1 (value): the program's accountLess lacks the field cents, int64, of the function's account"},
		{served(t, reflect.TypeFor[account]()).FitArguments([]reflect.Type{reflect.TypeFor[accountWrong]()}),
			"argument 1 (value): field cents of accountWrong: the program has duration, and the function takes int64"},
		{served(t, reflect.TypeFor[int64]()).FitResults([]reflect.Type{reflect.TypeFor[struct{ Cents int64 }]()}),
			"result 1: the program has struct, and the function returns int64"},
		{served(t, reflect.TypeFor[accountWrong]()).FitArguments([]reflect.Type{reflect.TypeFor[any]()}),
			"argument 1 (value): the program has any, and the function takes accountWrong: field cents of accountWrong: " +
				"a value of type any holds no duration, only numbers without a unit; use a type that has a time.Duration there"},
		{function(t, "wait", func() {}, schema.GoOptions{}).FitResults([]reflect.Type{reflect.TypeFor[string]()}),
			"the program has string, and the function returns nothing"},
		{served(t, reflect.TypeFor[*int64]()).FitResults([]reflect.Type{reflect.TypeFor[int64]()}),
			"result 1: the program has int64, and the function returns optional int64: use a pointer, for there may be none"},
	} {
		if test.got == nil || test.got.Error() != test.want {
			t.Errorf("%v\nwant %s", test.got, test.want)
		}
	}
}
