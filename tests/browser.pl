# Headless Chromium over a pipe (the DevTools protocol), for tests of pages: what it logged, what it
# asked for, what a script in the page says, and pictures of it.
#   my $browser = Browser->start('chromium') or ...;
#   my $page = $browser->open("file:///...", width => 390, dark => 1);
#   $page->{logs}, $page->{requests}; $browser->ask($page, 'document.title'); $browser->close($page);
package Browser;
use strict;
use warnings;
use File::Temp 'tempdir';
use IO::Handle;
use JSON::PP;
use MIME::Base64 'decode_base64';
use POSIX ();

my $WAIT_S = 60;

sub start {
    my ($class, $program) = @_;
    pipe my $their_in, my $our_out or return;
    pipe my $our_in, my $their_out or return;
    my $folder = tempdir(CLEANUP => 1);
    my $pid = fork() // return;
    if ($pid == 0) {
        # First out of the way, in case they are 3 and 4 themselves.
        my $in  = POSIX::dup2(fileno $their_in,  20);
        my $out = POSIX::dup2(fileno $their_out, 21);
        POSIX::dup2(20, 3);
        POSIX::dup2(21, 4);
        POSIX::close($_) for 20, 21;
        open STDERR, '>', '/dev/null';
        open STDOUT, '>', '/dev/null';
        { exec $program, '--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run',
            '--disable-dev-shm-usage', '--hide-scrollbars', "--user-data-dir=$folder",
            '--disable-background-networking', '--remote-debugging-pipe', 'about:blank'; }
        POSIX::_exit(127);
    }
    close $_ for $their_in, $their_out;
    binmode $_ for $our_in, $our_out;
    $our_out->autoflush(1);
    my $self = bless {pid => $pid, in => $our_in, out => $our_out, id => 0, rest => '',
                      pages => {}}, $class;
    return $self->call('Browser.getVersion') ? $self : undef;
}

sub message {
    my ($self) = @_;
    while ($self->{rest} !~ /\0/) {
        my $ready = '';
        vec($ready, fileno $self->{in}, 1) = 1;
        return unless select $ready, undef, undef, $WAIT_S;
        my $got = sysread $self->{in}, my $bytes, 1 << 20;
        return unless $got;
        $self->{rest} .= $bytes;
    }
    $self->{rest} =~ s/^([^\0]*)\0//;
    return decode_json($1);
}

# What happens in a page beside the answers.
sub note {
    my ($self, $message) = @_;
    my $page   = $self->{pages}{$message->{sessionId} // ''} or return;
    my $method = $message->{method};
    my $params = $message->{params};
    if ($method eq 'Page.loadEventFired') {
        $page->{loaded} = 1;
    } elsif ($method eq 'Runtime.exceptionThrown') {
        push @{ $page->{logs} }, $params->{exceptionDetails}{exception}{description}
            // $params->{exceptionDetails}{text};
    } elsif ($method eq 'Runtime.consoleAPICalled') {
        push @{ $page->{logs} }, "console.$params->{type}";
    } elsif ($method eq 'Log.entryAdded') {
        push @{ $page->{logs} }, $params->{entry}{text};
    } elsif ($method eq 'Network.requestWillBeSent') {
        push @{ $page->{requests} }, $params->{request}{url};
    }
}

sub call {
    my ($self, $method, $params, $page) = @_;
    my %message = (id => ++$self->{id}, method => $method, params => $params // {});
    $message{sessionId} = $page->{session} if $page;
    print { $self->{out} } encode_json(\%message), "\0";
    while (my $message = $self->message) {
        return $message->{result} if ($message->{id} // -1) == $self->{id};
        $self->note($message) if $message->{method};
    }
    return;
}

sub open {
    my ($self, $url, %how) = @_;
    my $target = $self->call('Target.createTarget', {url => 'about:blank'});
    my $attached = $self->call('Target.attachToTarget',
        {targetId => $target->{targetId}, flatten => JSON::PP::true});
    my $page = {session => $attached->{sessionId}, target => $target->{targetId}, logs => [],
                requests => []};
    $self->{pages}{ $page->{session} } = $page;
    my $width = $how{width} // 1440;
    $self->call($_, {}, $page) for qw(Page.enable Runtime.enable Log.enable Network.enable);
    $self->call('Emulation.setDeviceMetricsOverride',
        {width => $width, height => 900, deviceScaleFactor => $how{scale} // 1,
         mobile => $width < 600 ? JSON::PP::true : JSON::PP::false}, $page);
    my $scheme = $how{dark} ? 'dark' : 'light';
    $self->call('Emulation.setEmulatedMedia',
        {media => $how{print} ? 'print' : '',
         features => [{name => 'prefers-color-scheme', value => $scheme}]}, $page);
    $self->call('Page.navigate', {url => $url}, $page);
    while (not $page->{loaded}) {
        my $message = $self->message or return;
        $self->note($message) if $message->{method};
    }
    return $page;
}

sub ask {
    my ($self, $page, $script) = @_;
    my $answer = $self->call('Runtime.evaluate',
        {expression => $script, returnByValue => JSON::PP::true, awaitPromise => JSON::PP::true},
        $page);
    return $answer->{result}{value};
}

sub picture {
    my ($self, $page, $path) = @_;
    my $shot = $self->call('Page.captureScreenshot',
        {format => 'png', captureBeyondViewport => JSON::PP::true,
         clip => {x => 0, y => 0, scale => 1,
                  width  => $self->ask($page, 'document.documentElement.clientWidth'),
                  height => $self->ask($page, 'document.documentElement.scrollHeight')}}, $page);
    CORE::open my $file, '>:raw', $path or die "$path: $!";
    print $file decode_base64($shot->{data});
    CORE::close $file;
}

# The page on A4 paper, as a PDF's bytes.
sub paper {
    my ($self, $page) = @_;
    my $pdf = $self->call('Page.printToPDF', {paperWidth => 8.27, paperHeight => 11.69,
        printBackground => JSON::PP::true, preferCSSPageSize => JSON::PP::true}, $page);
    return decode_base64($pdf->{data} // '');
}

sub close {
    my ($self, $page) = @_;
    delete $self->{pages}{ $page->{session} };
    $self->call('Target.closeTarget', {targetId => $page->{target}});
}

sub stop {
    my ($self) = @_;
    print { $self->{out} } encode_json({id => ++$self->{id}, method => 'Browser.close'}), "\0";
    CORE::close $self->{out};
    waitpid $self->{pid}, 0;
}

1;
