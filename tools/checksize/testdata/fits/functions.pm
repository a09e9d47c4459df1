package Functions;



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

sub also_fits {
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
