package observe

import (
	"context"
	"slices"
)

// Join returns an observer that calls the functions of all of these, in their order. Those
// that are nil are left out. It returns nil if none is left.
func Join(observers ...*Observer) *Observer {
	all := slices.DeleteFunc(slices.Clone(observers), func(o *Observer) bool { return o == nil })
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return &Observer{
		ConnectionOpened:  connectionEvent(all, func(o *Observer) func(*Connection) { return o.ConnectionOpened }),
		ConnectionRefused: connectionEnd(all, func(o *Observer) func(*Connection, error) { return o.ConnectionRefused }),
		ConnectionMoved:   connectionEvent(all, func(o *Observer) func(*Connection) { return o.ConnectionMoved }),
		ConnectionEnded:   connectionEnd(all, func(o *Observer) func(*Connection, error) { return o.ConnectionEnded }),
		CallBegan:         callEvent(all, func(o *Observer) func(context.Context, *Call) { return o.CallBegan }),
		CallQueued:        callEvent(all, func(o *Observer) func(context.Context, *Call) { return o.CallQueued }),
		CallStarted:       callEvent(all, func(o *Observer) func(context.Context, *Call) { return o.CallStarted }),
		CallRetried:       callEvent(all, func(o *Observer) func(context.Context, *Call) { return o.CallRetried }),
		CallEnded:         callEvent(all, func(o *Observer) func(context.Context, *Call) { return o.CallEnded }),
	}
}

func connectionEvent(all []*Observer, of func(*Observer) func(*Connection)) func(*Connection) {
	return func(connection *Connection) {
		for _, observer := range all {
			if tell := of(observer); tell != nil {
				tell(connection)
			}
		}
	}
}

func connectionEnd(all []*Observer, of func(*Observer) func(*Connection, error)) func(*Connection, error) {
	return func(connection *Connection, reason error) {
		for _, observer := range all {
			if tell := of(observer); tell != nil {
				tell(connection, reason)
			}
		}
	}
}

// joinedStates are the States of observers that are joined, in their order.
type joinedStates []any

// callEvent calls each observer with a State of its own. All of them are kept in the State
// of the call.
func callEvent(all []*Observer, of func(*Observer) func(context.Context, *Call)) func(context.Context, *Call) {
	return func(ctx context.Context, call *Call) {
		states, begun := call.State.(joinedStates)
		if !begun {
			states = make(joinedStates, len(all))
		}
		for i, observer := range all {
			if tell := of(observer); tell != nil {
				call.State = states[i]
				tell(ctx, call)
				states[i] = call.State
			}
		}
		call.State = states
	}
}
