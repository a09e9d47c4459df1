// Package sustained tests that calls which are made without a pause stay hot for
// minutes. It measures time, so nothing else may run beside it.
package sustained
