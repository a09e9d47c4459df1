package Functions;



sub too_long {
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    );

}

sub fits {
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    my %h = (
    );

}
1;
